// The events of a piece out of its JSON, and the shapes that they have.

#pragma once

#include "records.h"
#include "time.h"

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

// A process or a thread; `*bit` becomes 0 where it is null, and gains `is_text` where it is no integer.
static inline Place behind_id(Place p, Text *text, int64_t *number, uint32_t is_text, uint32_t *bit) {
    if (!(p = behind_text(p, text))) return NULL;
    if (!text->at) *bit = 0;
    else if (!is_integer(*text, number)) *bit |= is_text;
    return p;
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
            case PID: p = behind_id(p, &event->pid_text, &event->pid, PID_IS_TEXT, &bit); break;
            case TID: p = behind_id(p, &event->tid_text, &event->tid, TID_IS_TEXT, &bit); break;
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
