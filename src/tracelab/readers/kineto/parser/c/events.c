#include "events.h"

#include "decimal.h"

// The field that a key names; 0 where it is another key.
static inline uint32_t field_of_key(Text key) {
    const uint8_t *k = key.start;
    switch (key.size) {
        case 2: return k[0] == 'p' && k[1] == 'h' ? FIELD_PH : k[0] == 't' && k[1] == 's' ? FIELD_TS : 0;
        case 3:
            if (k[1] == 'i' && k[2] == 'd') return k[0] == 'p' ? FIELD_PID : k[0] == 't' ? FIELD_TID : 0;
            if (k[0] == 'c' && k[1] == 'a' && k[2] == 't') return FIELD_CAT;
            return k[0] == 'd' && k[1] == 'u' && k[2] == 'r' ? FIELD_DUR : 0;
        case 4:
            if (k[0] == 'n' && k[1] == 'a' && k[2] == 'm' && k[3] == 'e') return FIELD_NAME;
            return k[0] == 'a' && k[1] == 'r' && k[2] == 'g' && k[3] == 's' ? FIELD_ARGS : 0;
        default: return 0;
    }
}

static Cursor parse_json(Cursor cursor, Text *json) {
    const uint8_t *start = chunk.output.next;
    cursor = copy_value(cursor, &chunk.output);
    *json = (Text){start, (uint32_t)(chunk.output.next - start)};
    return cursor;
}

// Parses the text of a string, the JSON of another value, nothing of null.
static inline Cursor parse_text(Cursor cursor, Text *text) {
    if (*cursor != '"') {
        Cursor end = skip_null(cursor);
        if (end) {
            *text = (Text){NULL, 0};
            return end;
        }
        if ((end = skip_number(cursor)) != NULL) {
            *text = (Text){cursor, (uint32_t)(end - cursor)};
            return end;
        }
        return parse_json(cursor, text);
    }
    bool escaped = false;
    Cursor end = find_string_end(++cursor, &chunk.output, &escaped);
    if (!end) return NULL;
    *text = (Text){cursor, (uint32_t)(end - cursor)};
    if (escaped) {
        if (!has_space(&chunk.output, text->size)) return NULL;
        text->start = chunk.output.next;
        chunk.output.next = append_unescaped(chunk.output.next, cursor, end);
        text->size = (uint32_t)(chunk.output.next - text->start);
    }
    return end + 1;
}

// Parses a time, also a quoted one; `*field` becomes 0 where it is null.
static inline Cursor parse_time(Cursor cursor, int64_t base_ns, int64_t *time_ns, uint32_t *field) {
    Cursor null_end = skip_null(cursor);
    if (null_end) {
        *field = 0;
        return null_end;
    }
    bool quoted = *cursor == '"';
    bool is_whole;
    cursor = parse_decimal(cursor + quoted, chunk.time_exponent, base_ns, time_ns, &is_whole);
    return !quoted || !cursor ? cursor : *cursor == '"' ? cursor + 1 : NULL;
}

// Parses a process or a thread; `*field` becomes 0 where it is null, and gets `is_text` where it is no integer.
static inline Cursor parse_id(Cursor cursor, Text *text, int64_t *number, uint32_t is_text, uint32_t *field) {
    if (!(cursor = parse_text(cursor, text))) return NULL;
    if (!text->start) *field = 0;
    else if (!parse_integer(*text, number)) *field |= is_text;
    return cursor;
}

// Whether an event has an unknown key already; also where it has too many to compare them with each other.
static bool is_repeated(const Event *event, const Member *member) {
    if (chunk.repaired) return false;
    if (event->member_count > MAX_COMPARED_MEMBERS) return true;
    for (const Member *other = members_of(event); other < member; other++)
        if (other->argument == UNKNOWN_ARGUMENT && other->hash == member->hash
            && !((other->flags ^ member->flags) & IS_OWN_KEY) && texts_equal(key_of(other), key_of(member))) return true;
    return false;
}

// Adds a member whose text begins at `start`; returns NULL where the event has its key already.
static Member *add_member(Event *event, const uint8_t *start, uint32_t key_size, uint8_t flags) {
    Member *member = extend(sizeof(Member));
    if (!member) return NULL;
    Text key = {start + 1, key_size};
    uint8_t argument = flags & IS_OWN_KEY ? UNKNOWN_ARGUMENT : find_argument(key);
    *member = (Member){.start = start, .key_size = key_size, .argument = argument, .flags = flags};
    if (argument == UNKNOWN_ARGUMENT) {
        member->hash = hash_text(0, key);
        if (is_repeated(event, member)) return NULL;
    } else {
        uint64_t bit = 1ull << argument;
        if (event->arguments & bit) return NULL;
        event->arguments |= bit;
    }
    event->member_count++;
    return member;
}

// Parses the value of a member, which is copied behind its key.
INLINE Cursor parse_member_value(Cursor cursor, Output *out, Member *member) {
    if (*cursor == '"') {
        *out->next++ = '"';
        if (!(cursor = copy_string(cursor + 1, out))) return NULL;
        *out->next++ = '"';
        cursor++;
    } else if (is_digit(*cursor) || *cursor == '-') {
        if (!(cursor = copy_scalar(cursor, out))) return NULL;
    } else {
        if (skip_null(cursor)) member->flags |= IS_NULL;
        if (!(cursor = copy_value(cursor, out))) return NULL;
    }
    member->size = (uint32_t)(out->next - member->start);
    return cursor;
}

// Parses the value of an event's own key.
static Cursor parse_own_value(Cursor cursor, Text key, Event *event) {
    Output *out = &chunk.output;
    if (!has_space(out, key.size)) return NULL;
    uint8_t *start = out->next;
    *out->next++ = '"';
    out->next = copy_text(out->next, key);
    *out->next++ = '"';
    *out->next++ = ':';
    Member *member = add_member(event, start, key.size, IS_OWN_KEY);
    return member ? parse_member_value(cursor, out, member) : NULL;
}

// Parses the arguments; returns NULL also where a key is there twice.
static Cursor parse_arguments(Cursor cursor, Event *event) {
    if (*cursor != '{') return NULL;
    Output local = chunk.output, *out = &local;
    event->args.start = out->next;
    *out->next++ = '{';
    cursor = skip_space(cursor + 1);
    while (*cursor != '}') {
        const uint8_t *start = out->next;
        if (!(cursor = copy_key(cursor, out))) return NULL;
        Member *member = add_member(event, start, (uint32_t)(out->next - start) - 3, 0);
        if (!member || !(cursor = parse_member_value(cursor, out, member))) return NULL;
        cursor = skip_space(cursor);
        if (*cursor == '}') break;
        if (*cursor != ',') return NULL;
        cursor = skip_space(cursor + 1);
        if (*cursor != '}') *out->next++ = ',';
    }
    *out->next++ = '}';
    event->args.size = (uint32_t)(out->next - event->args.start);
    chunk.output = local;
    return cursor + 1;
}

static uint8_t find_watched_name(Text name) {
    uint8_t number = NOT_WATCHED;
    for (uint32_t i = 0; i < watched.count; i++)
        if (texts_equal(name, watched.names[i])) number = (uint8_t)i;
    return number;
}

// Parses an event; returns NULL also where it is irregular.
static Cursor parse_regular_event(Cursor cursor) {
    Event *event = begin_event();
    if (!event) return NULL;
    uint32_t seen = 0, fields = 0;
    Text ph = {NULL, 0}, cat = {NULL, 0};
    cursor = skip_space(cursor + 1);
    while (*cursor != '}') {
        bool escaped = false;
        Cursor key_end = *cursor == '"' ? find_string_end(cursor + 1, &chunk.output, &escaped) : NULL;
        if (!key_end || (escaped && !chunk.repaired)) return NULL;
        Text key = {cursor + 1, (uint32_t)(key_end - cursor - 1)};
        cursor = skip_space(key_end + 1);
        if (*cursor != ':') return NULL;
        cursor = skip_space(cursor + 1);
        uint32_t field = field_of_key(key);
        if (seen & field) return NULL;
        seen |= field;
        switch (field) {
            case FIELD_PH: cursor = parse_text(cursor, &ph); break;
            case FIELD_CAT: cursor = parse_text(cursor, &cat); break;
            case FIELD_NAME:
                cursor = parse_text(cursor, &event->name);
                field = event->name.start ? field : 0;
                break;
            case FIELD_PID: cursor = parse_id(cursor, &event->pid_text, &event->pid, PID_IS_TEXT, &field); break;
            case FIELD_TID: cursor = parse_id(cursor, &event->tid_text, &event->tid, TID_IS_TEXT, &field); break;
            case FIELD_TS: cursor = parse_time(cursor, chunk.base_ns, &event->start_ns, &field); break;
            case FIELD_DUR: cursor = parse_time(cursor, 0, &event->dur_ns, &field); break;
            case FIELD_ARGS: {
                Cursor null_end = skip_null(cursor);
                if (null_end) field = 0;
                cursor = null_end ? null_end : parse_arguments(cursor, event);
                break;
            }
            default:
                field = HAS_OWN_KEYS;
                cursor = parse_own_value(cursor, key, event);
        }
        if (!cursor) return NULL;
        fields |= field;
        cursor = skip_space(cursor);
        if (*cursor == ',') cursor = skip_space(cursor + 1);
        else if (*cursor != '}') return NULL;
    }
    if (chunk.output.not_finite) return NULL;
    uint8_t watched_name = fields & FIELD_NAME ? find_watched_name(event->name) : NOT_WATCHED;
    int32_t shape = find_shape(ph, cat, watched_name, event->arguments >> arguments.watched & 1);
    if (shape < 0) return NULL;
    event->shape = (uint16_t)shape;
    end_event(event, fields);
    return cursor + 1;
}

Cursor parse_event(Cursor cursor) {
    uint8_t *arena_before = arena.next, *output_before = chunk.output.next;
    chunk.output.not_finite = false;
    Cursor end = parse_regular_event(cursor);
    if (end) return end;
    rewind_arena(arena_before);
    chunk.output.next = output_before;
    Text text;
    if (!(end = parse_json(cursor, &text))) return NULL;
    Event *event = begin_event();
    if (!event) return NULL;
    event->name = text;
    chunk.irregular_count++;
    end_event(event, IS_IRREGULAR);
    return end;
}
