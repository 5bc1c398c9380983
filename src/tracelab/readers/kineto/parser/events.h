// The events of a piece, one after the other in memory, and the shapes that they have.

#pragma once

#include "arguments.h"
#include "time.h"

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
    *text = (Text){p, (uint32_t)(end - p)};
    if (escaped) {
        text->at = piece.text.to;
        piece.text.to = unescaped(piece.text.to, p, end);
        text->size = (uint32_t)(piece.text.to - text->at);
    }
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
    bool whole;
    p = behind_decimal(p + quoted, piece.exponent, base_ns, time, &whole);
    return !quoted || !p ? p : *p == '"' ? p + 1 : NULL;
}

static inline uint32_t hashed(uint32_t hash, Text text) {
    for (uint32_t i = 0; i < text.size; i++) hash = (hash ^ text.at[i]) * 16777619u;  // FNV-1a
    return hash ^ hash >> 15;
}

// Whether an event has an unknown key already; also where it has too many to compare them with each other.
static bool has_key(const Event *event, const Member *member) {
    if (piece.mended) return false;
    if (event->members > MOST_COMPARED) return true;
    for (const Member *other = members_of(event); other < member; other++)
        if (other->argument == UNKNOWN && other->hash == member->hash && !((other->is ^ member->is) & IS_EXTRA)
            && equal(key_of(other), key_of(member))) return true;
    return false;
}

// The member whose text begins at `start`, and whose key is that long; NULL where the event has the key already.
static Member *new_member(Event *event, uint8_t *start, uint32_t key_size, uint8_t is) {
    if (!has_room(sizeof(Member))) return NULL;
    Text key = {start + 1, key_size};
    Member *member = members_of(event) + event->members;
    uint8_t argument = is & IS_EXTRA ? UNKNOWN : argument_of(key);
    *member = (Member){.at = start, .key_size = key_size, .argument = argument, .is = is};
    if (member->argument == UNKNOWN) {
        member->hash = hashed(0, key);
        if (has_key(event, member)) return NULL;
    } else {
        uint64_t bit = 1ull << member->argument;
        if (event->arguments & bit) return NULL;
        event->arguments |= bit;
    }
    piece.free += sizeof(Member);
    event->members++;
    return member;
}

// The value of a member, copied behind its key.
INLINE Place behind_value(Place p, Output *out, Member *member) {
    if (*p == '"') {
        *out->to++ = '"';
        if (!(p = string_copied(p + 1, out))) return NULL;
        *out->to++ = '"';
        p++;
    } else if (is_digit(*p) || *p == '-') {
        if (!(p = scalar_copied(p, out))) return NULL;
    } else {
        if (behind_null(p)) member->is |= IS_NULL;
        if (!(p = value_copied(p, out))) return NULL;
    }
    member->size = (uint32_t)(out->to - member->at);
    return p;
}

static Place behind_extra(Place p, Text key, Event *event) {
    Output *out = &piece.text;
    uint8_t *start = out->to;
    *out->to++ = '"';
    out->to = copied(out->to, key);
    *out->to++ = '"';
    *out->to++ = ':';
    Member *member = new_member(event, start, key.size, IS_EXTRA);
    return member ? behind_value(p, out, member) : NULL;
}

// An object; NULL also for one that has a key twice.
static Place behind_arguments(Place p, Event *event) {
    if (*p != '{') return NULL;
    Output here = piece.text, *out = &here;
    event->args.at = out->to;
    *out->to++ = '{';
    p = behind_space(p + 1);
    while (*p != '}') {
        uint8_t *start = out->to;
        if (!(p = key_copied(p, out))) return NULL;
        Member *member = new_member(event, start, (uint32_t)(out->to - start) - 3, 0);
        if (!member || !(p = behind_value(p, out, member))) return NULL;
        p = behind_space(p);
        if (*p == '}') break;
        if (*p != ',') return NULL;
        p = behind_space(p + 1);
        if (*p != '}') *out->to++ = ',';
    }
    *out->to++ = '}';
    event->args.size = (uint32_t)(out->to - event->args.at);
    piece.text = here;
    return p + 1;
}

static inline bool both_or_neither(Text one, Text other) {
    return !one.at == !other.at && equal(one, other);
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

// The place behind the event whose opening brace is at p; NULL also where it is odd.
static Place behind_plain_event(Place p) {
    Event *event = new_event();
    if (!event) return NULL;
    uint32_t seen = 0, has = 0;
    Text ph = {NULL, 0}, cat = {NULL, 0};
    p = behind_space(p + 1);
    while (*p != '}') {
        bool escaped = false;
        Place key_end = *p == '"' ? string_end(p + 1, &piece.text, &escaped) : NULL;
        if (!key_end || (escaped && !piece.mended)) return NULL;
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
                p = null ? null : behind_arguments(p, event);
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
    if (piece.text.not_finite) return NULL;
    uint8_t name = UNWATCHED;
    if (has & NAME)
        for (uint32_t i = 0; i < watched.count; i++)
            if (equal(event->name, watched.names[i])) name = (uint8_t)i;
    int32_t shape = shape_of(ph, cat, name, event->arguments >> arguments.watched & 1);
    if (shape < 0) return NULL;
    event->shape = (uint16_t)shape;
    end_event(event, has);
    return p + 1;
}

// The place behind the event whose opening brace is at p, be it odd: whole, but not to be read here.
static Place behind_event(Place p) {
    uint8_t *free = piece.free;
    piece.text.not_finite = false;
    uint8_t *to = piece.text.to;
    Place end = behind_plain_event(p);
    if (end) return end;
    piece.free = free;
    piece.text.to = to;
    Text text;
    if (!(end = behind_json(p, &text))) return NULL;
    Event *event = new_event();
    if (!event) return NULL;
    event->name = text;
    piece.odd++;
    end_event(event, ODD);
    return end;
}
