// The events of a piece as they stand in memory, one after the other, each with its members behind it.

#pragma once

#include "arguments.h"
#include "json.h"

enum { PH = 1, CAT = 2, NAME = 4, PID = 8, TID = 16, TS = 32, DUR = 64, ARGS = 128 };  // keys, as bits
enum { PID_IS_TEXT = 256, TID_IS_TEXT = 512, ODD = 1024 };
enum { MOST_SHAPES = 1 << 15, SHAPE_SLOTS = 2 * MOST_SHAPES, MOST_WATCHED = 8, UNWATCHED = 255 };

typedef struct {
    int64_t start_ns, dur_ns, pid, tid;
    uint64_t arguments;  // bits of the known ones that it has
    Text name, args, pid_text, tid_text;  // of an odd event, `name` is all of it
    uint16_t shape, has;
    uint32_t members;  // how many stand behind it
} Event;

enum { IS_EXTRA = 1, IS_NULL = 2, MOST_COMPARED = 1024 };

// A key with its value, as JSON: of the arguments, or of an event itself, where no table has a column for it.
typedef struct {
    uint8_t *at;
    uint32_t size, key_size;
    uint32_t hash;     // of the key, where it is unknown
    uint8_t argument;  // its number, or UNKNOWN
    uint8_t is;
} Member;

// What events can have in common that tells their table.
typedef struct {
    Text ph, cat;
    uint8_t name;  // the number of a watched name, or UNWATCHED
    bool keyed;    // whether the watched key is among its arguments
} Shape;

static struct {
    Text names[MOST_WATCHED];
    uint32_t count;
} watched;

static struct {
    Place end;               // of the piece
    Output text;             // copied values
    uint8_t *events, *free;  // the first event, and where the next one goes
    uint64_t limit;          // of the memory there is
    uint32_t count, odd;     // how many events, and how many of them are odd
    uint32_t all_have;       // the bits that any of them has
    bool mended;             // it comes from the tolerant path
    int32_t exponent;        // of ten, from the unit of the times to nanoseconds
    int64_t base_ns;
    Shape shapes[MOST_SHAPES];
    uint32_t shape_count;
    uint16_t slots[SHAPE_SLOTS];  // by hash: the number of a shape plus one
} piece;

static inline bool has_room(size_t bytes) {
    uint64_t end = (uint64_t)(uintptr_t)piece.free + bytes + PAD;
    return end <= piece.limit || grown_to(end, &piece.limit);
}

static inline Member *members_of(const Event *event) { return (Member *)(uintptr_t)(event + 1); }

static inline Text key_of(const Member *member) { return (Text){member->at + 1, member->key_size}; }

static inline Text value_of(const Member *member) {
    uint32_t before = member->key_size + 3;  // two quotes and a colon
    return (Text){member->at + before, member->size - before};
}

static inline Event *next_event(const Event *event) {
    return (Event *)aligned((uint8_t *)(members_of(event) + event->members), 8);
}

static Event *new_event(void) {
    if (!has_room(sizeof(Event))) return NULL;
    Event *event = (Event *)piece.free;
    piece.free += sizeof(Event);
    event->members = 0;
    event->arguments = 0;
    return event;
}

static void end_event(Event *event, uint32_t has) {
    event->has = (uint16_t)has;
    piece.all_have |= has;
    piece.free = (uint8_t *)next_event(event);
    piece.count++;
}
