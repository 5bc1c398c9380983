// The events of a chunk as records in memory, one after the other, each with its members behind it.

#pragma once

#include "arguments.h"
#include "json.h"

// Fields of an event, as bits: those of its text, and what is known of them.
enum Field {
    FIELD_PH = 1, FIELD_CAT = 2, FIELD_NAME = 4, FIELD_PID = 8, FIELD_TID = 16, FIELD_TS = 32, FIELD_DUR = 64,
    FIELD_ARGS = 128,
    PID_IS_TEXT = 256, TID_IS_TEXT = 512,
    IS_IRREGULAR = 1024,  // valid JSON, but an event that the tolerant path must read
    HAS_OWN_KEYS = 2048,  // for which no table has a column
};

typedef struct {
    int64_t start_ns, dur_ns, pid, tid;
    uint64_t arguments;  // the set of the known ones that it has
    Text name;           // of an irregular event, all of its text
    Text args, pid_text, tid_text;
    uint16_t shape, fields;
    uint32_t member_count;
} Event;

enum MemberFlag { IS_OWN_KEY = 1, IS_NULL = 2 };

// A key with its value, as JSON: an argument, or an event's own key for which no table has a column.
typedef struct {
    const uint8_t *start;
    uint32_t size, key_size;
    uint32_t hash;     // of the key, where the argument is unknown
    uint8_t argument;  // its number, or UNKNOWN_ARGUMENT
    uint8_t flags;
} Member;

enum {
    MAX_CHUNK_BYTES = 1 << 30,    // sums of the sizes of its texts fit 32 bits
    MAX_COMPARED_MEMBERS = 1024,  // of one event, each with each
    SHAPE_SLOTS = 2 * MAX_SHAPES,
};

extern struct Watched {
    Text names[MAX_WATCHED_NAMES];
    uint32_t count;
} watched;

// All about the chunk that is being parsed.
extern struct Chunk {
    uint8_t *text, *end;
    Output output;  // copied values; never longer than the chunk, for no value becomes longer when it is copied
    const Event *first_event;
    uint32_t event_count, irregular_count;
    uint32_t fields;          // those that any event has
    bool repaired;            // its events come from the tolerant path
    int32_t time_exponent;    // of ten, from the unit of its times to nanoseconds
    int64_t base_ns;          // added to start times
    Shape shapes[MAX_SHAPES];
    uint32_t shape_count;
    uint16_t shape_slots[SHAPE_SLOTS];  // by hash: the number of a shape plus one
} chunk;

// Takes memory for text, always from the same address on; NULL where there is none.
uint8_t *allocate_text(uint32_t size);

// Takes memory for the text of a chunk, `skipped` bytes behind that address, and for its copied values; returns false
// where there is none.
bool allocate_chunk(uint32_t skipped, uint32_t size);

// Forgets all about the events of the chunk before.
void begin_chunk(bool repaired, int32_t time_exponent, int64_t base_ns);

// Returns NULL where there is no memory.
Event *begin_event(void);

void end_event(Event *event, uint32_t fields);

static inline Member *members_of(const Event *event) { return (Member *)(uintptr_t)(event + 1); }

static inline Text key_of(const Member *member) { return (Text){member->start + 1, member->key_size}; }

static inline Text value_of(const Member *member) {
    uint32_t before = member->key_size + 3;  // two quotes and a colon
    return (Text){member->start + before, member->size - before};
}

// The first multiple of eight from an address on: where an event can begin.
static inline uint8_t *align8(uint8_t *start) { return start + (-(uintptr_t)start & 7); }

static inline const Event *next_event(const Event *event) {
    return (const Event *)align8((uint8_t *)(members_of(event) + event->member_count));
}

// The number of this shape in the chunk; -1 where there are too many.
int32_t find_shape(Text ph, Text cat, uint8_t watched_name, bool has_watched_key);

// The hash of a text and of what was hashed before; reads up to 7 bytes more of what is behind it.
static inline uint32_t hash_text(uint32_t hash, Text text) {
    uint64_t mixed = (uint64_t)hash << 32 | text.size;
    for (uint32_t i = 0; i < text.size; i += 8) {
        uint64_t word;
        __builtin_memcpy(&word, text.start + i, sizeof word);
        if (text.size - i < 8) word &= (1ull << 8 * (text.size - i)) - 1;
        mixed = (mixed ^ word) * 0x9e3779b97f4a7c15u;
        mixed ^= mixed >> 32;
    }
    return (uint32_t)mixed;
}
