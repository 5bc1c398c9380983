// The events of a piece, one after the other in memory, and the shapes that they have.

#pragma once

#include "time.h"

enum { PH = 1, CAT = 2, NAME = 4, PID = 8, TID = 16, TS = 32, DUR = 64, ARGS = 128 };  // keys, as bits
enum { PID_IS_TEXT = 256, TID_IS_TEXT = 512 };
enum { MOST_SHAPES = 4096, SHAPE_SLOTS = 2 * MOST_SHAPES, MOST_EXTRA_KEYS = 64, MOST_WATCHED = 8, UNWATCHED = 255 };

typedef struct {
    int64_t start_ns, dur_ns, pid, tid;
    Text name, args, pid_text, tid_text;
    uint16_t shape, has;
    uint32_t extras;  // how many stand behind it
} Event;

// A value under a key that no table has a column for.
typedef struct {
    Text json;
    uint32_t key;
} Extra;

// What events can have in common that tells their table.
typedef struct {
    Text ph, cat;
    uint8_t name;  // the number of a watched name, or UNWATCHED
    bool keyed;    // whether a watched key is among its arguments
} Shape;

static struct {
    Text names[MOST_WATCHED], keys[MOST_WATCHED];
    uint32_t name_count, key_count;
} watched;

static struct {
    Place end;                 // of the piece
    Output text;               // copied values
    uint8_t *events, *free;    // the first event, and where the next one goes
    uint64_t limit;            // of the memory there is
    uint32_t count, all_have;  // how many events, and the bits that any of them has
    int32_t exponent;          // of ten, from the unit of the times to nanoseconds
    int64_t base_ns;
    Shape shapes[MOST_SHAPES];
    uint32_t shape_count;
    uint16_t slots[SHAPE_SLOTS];  // by hash: the number of a shape plus one
    Text extra_keys[MOST_EXTRA_KEYS];
    uint32_t extra_key_count;
} piece;

static inline bool has_room(size_t bytes) {
    uint64_t end = (uint64_t)(uintptr_t)piece.free + bytes + PAD;
    return end <= piece.limit || grown_to(end, &piece.limit);
}

static inline Event *next_event(const Event *event) {
    return (Event *)aligned((uint8_t *)(uintptr_t)(event + 1) + event->extras * sizeof(Extra), 8);
}

static inline uint32_t key_bit(Text key) {
    Place k = key.at;
    switch (key.size) {
        case 2: return k[0] == 'p' && k[1] == 'h' ? PH : k[0] == 't' && k[1] == 's' ? TS : 0;
        case 3:
            if (k[1] == 'i' && k[2] == 'd') return k[0] == 'p' ? PID : k[0] == 't' ? TID : 0;
            if (k[0] == 'c' && k[1] == 'a' && k[2] == 't') return CAT;
            return k[0] == 'd' && k[1] == 'u' && k[2] == 'r' ? DUR : 0;
        case 4:
            if (k[0] == 'n' && k[1] == 'a' && k[2] == 'm' && k[3] == 'e') return NAME;
            return k[0] == 'a' && k[1] == 'r' && k[2] == 'g' && k[3] == 's' ? ARGS : 0;
        default: return 0;
    }
}

static Place behind_json(Place p, Text *json) {
    uint8_t *start = piece.text.to;
    p = value_copied(p, &piece.text);
    *json = (Text){start, (uint32_t)(piece.text.to - start)};
    return p;
}

// Of a string what it says, of another value its JSON, of null nothing.
static inline Place behind_text(Place p, Text *text) {
    if (*p != '"') {
        Place end = behind_null(p);
        if (end) {
            *text = (Text){NULL, 0};
            return end;
        }
        if ((end = behind_number(p)) != NULL) {
            *text = (Text){p, (uint32_t)(end - p)};
            return end;
        }
        return behind_json(p, text);
    }
    bool escaped = false;
    Place end = string_end(++p, &piece.text, &escaped);
    if (!end) return NULL;
    *text = escaped ? unescaped(p, end, &piece.text) : (Text){p, (uint32_t)(end - p)};
    return end + 1;
}

// A time, be it quoted; `*bit` becomes 0 where it is null.
static inline Place behind_field_time(Place p, int64_t base_ns, int64_t *time, uint32_t *bit) {
    Place null = behind_null(p);
    if (null) {
        *bit = 0;
        return null;
    }
    bool quoted = *p == '"';
    p = behind_time(p + quoted, piece.exponent, base_ns, time);
    return !quoted || !p ? p : *p == '"' ? p + 1 : NULL;
}

static Place behind_extra(Place p, Text key, Event *event) {
    uint32_t number = 0;
    while (number < piece.extra_key_count && !equal(key, piece.extra_keys[number])) number++;
    if (number == MOST_EXTRA_KEYS) return NULL;
    if (number == piece.extra_key_count) piece.extra_keys[piece.extra_key_count++] = key;
    Extra *extras = (Extra *)(event + 1);
    for (uint32_t i = 0; i < event->extras; i++)
        if (extras[i].key == number) return NULL;  // the key is there twice
    Place null = behind_null(p);
    if (null) return null;
    if (!has_room(sizeof(Extra))) return NULL;
    piece.free += sizeof(Extra);
    Extra *extra = &extras[event->extras++];
    extra->key = number;
    return behind_json(p, &extra->json);
}

static inline bool both_or_neither(Text one, Text other) {
    return !one.at == !other.at && equal(one, other);
}

static inline uint32_t hashed(uint32_t hash, Text text) {
    for (uint32_t i = 0; i < text.size; i++) hash = hash * 31 + text.at[i];
    return hash;
}

static int32_t shape_of(Text ph, Text cat, uint8_t name, bool keyed) {
    uint32_t hash = hashed(hashed(name * 2u + keyed, ph), cat);
    for (;; hash++) {
        uint16_t *slot = &piece.slots[hash % SHAPE_SLOTS];
        if (!*slot) {
            if (piece.shape_count == MOST_SHAPES) return -1;
            piece.shapes[piece.shape_count] = (Shape){ph, cat, name, keyed};
            *slot = (uint16_t)++piece.shape_count;
        }
        const Shape *shape = &piece.shapes[*slot - 1];
        bool texts_equal = both_or_neither(shape->ph, ph) && both_or_neither(shape->cat, cat);
        if (texts_equal && shape->name == name && shape->keyed == keyed) return *slot - 1;
    }
}

// The place behind the event whose opening brace is at p; NULL also for one with a key twice.
static Place behind_event(Place p) {
    if (!has_room(sizeof(Event))) return NULL;
    Event *event = (Event *)piece.free;
    piece.free += sizeof(Event);
    event->extras = 0;
    piece.text.found = false;
    uint32_t seen = 0, has = 0;
    Text ph = {NULL, 0}, cat = {NULL, 0};
    p = behind_space(p + 1);
    while (*p != '}') {
        bool escaped = false;
        Place key_end = *p == '"' ? string_end(p + 1, &piece.text, &escaped) : NULL;
        if (!key_end || escaped) return NULL;
        Text key = {p + 1, (uint32_t)(key_end - p - 1)};
        p = behind_space(key_end + 1);
        if (*p != ':') return NULL;
        p = behind_space(p + 1);
        uint32_t bit = key_bit(key);
        if (seen & bit) return NULL;
        seen |= bit;
        switch (bit) {
            case PH: p = behind_text(p, &ph); break;
            case CAT: p = behind_text(p, &cat); break;
            case NAME: p = behind_text(p, &event->name); bit = event->name.at ? bit : 0; break;
            case PID:
                p = behind_text(p, &event->pid_text);
                if (!event->pid_text.at) bit = 0;
                else if (!p || !is_integer(event->pid_text, &event->pid)) bit |= PID_IS_TEXT;
                break;
            case TID:
                p = behind_text(p, &event->tid_text);
                if (!event->tid_text.at) bit = 0;
                else if (!p || !is_integer(event->tid_text, &event->tid)) bit |= TID_IS_TEXT;
                break;
            case TS: p = behind_field_time(p, piece.base_ns, &event->start_ns, &bit); break;
            case DUR: p = behind_field_time(p, 0, &event->dur_ns, &bit); break;
            case ARGS: {
                Place null = behind_null(p);
                if (null) bit = 0;
                p = null ? null : behind_json(p, &event->args);
                break;
            }
            default: p = behind_extra(p, key, event);
        }
        if (!p) return NULL;
        has |= bit;
        p = behind_space(p);
        if (*p == ',') p = behind_space(p + 1);
        else if (*p != '}') return NULL;
    }
    uint8_t name = UNWATCHED;
    if (has & NAME)
        for (uint32_t i = 0; i < watched.name_count; i++)
            if (equal(event->name, watched.names[i])) name = (uint8_t)i;
    int32_t shape = shape_of(ph, cat, name, piece.text.found);
    if (shape < 0) return NULL;
    event->shape = (uint16_t)shape;
    event->has = (uint16_t)has;
    piece.all_have |= has;
    piece.free = (uint8_t *)next_event(event);
    piece.count++;
    return p + 1;
}
