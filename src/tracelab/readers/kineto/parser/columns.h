// Events in order of their kinds, column by column, as Arrow lays columns out.
//
// The rows of each kind begin at a multiple of eight, so that those of one kind are whole bytes of the validity bits,
// and there is one more, for the offset behind the last text.

#pragma once

#include "events.h"

enum Column {
    PH_COLUMN, CAT_COLUMN, NAME_COLUMN, PID_COLUMN, TID_COLUMN, START_COLUMN, DUR_COLUMN,
    REST_COLUMN, REST_BESIDE_COLUMN,  // what is left over of the arguments, for the first table and for the second one
    PID_TEXT_COLUMN, TID_TEXT_COLUMN, ARGUMENT_COLUMNS,
    LAST_COLUMN = ARGUMENT_COLUMNS + MOST_KEYS - 1,
    ALL_COLUMNS = LAST_COLUMN + 2,  // a multiple of four
};

typedef struct {
    uint8_t *values, *valid;
    uint32_t *offsets;  // NULL for a column of numbers
} Buffers;

typedef struct {
    uint32_t present;   // events that have the column
    uint32_t position;  // of the next text, among the bytes of all; before texts are put, how many bytes there can be
    uint32_t next_row;  // the first one without an offset
} Filled;

// The values of an argument that do not fit its column.
typedef struct {
    uint32_t count;
    Text first;
} Unfit;

static struct {
    uint8_t kinds[MOST_SHAPES];  // of the shapes, to be filled before
    Buffers buffers[ALL_COLUMNS];
    uint32_t starts[MOST_KINDS], counts[MOST_KINDS];  // the rows of each kind
    Filled filled[MOST_KINDS][ALL_COLUMNS];
    Unfit unfit[MOST_KINDS][MOST_KEYS];
    uint64_t arguments;  // bits of those that have a column
    uint32_t rows;       // with those between the kinds, which are empty
    Text *odd;           // the events that are odd
} columns;

static uint8_t *taken(size_t bytes) {
    piece.free = aligned(piece.free, 64);
    if (!has_room(bytes)) return NULL;
    uint8_t *at = piece.free;
    piece.free += bytes + PAD;
    return at;
}

// Bytes of each value; 0 for texts.
static inline uint32_t width_of(enum Column column) {
    if (column >= PID_COLUMN && column <= DUR_COLUMN) return sizeof(int64_t);
    if (column < ARGUMENT_COLUMNS) return 0;
    uint8_t type = arguments.types[column - ARGUMENT_COLUMNS];
    return type == THREE ? THREE_ITEMS * sizeof(int64_t) : type == INT64 || type == INT32 ? sizeof(int64_t) : 0;
}

static inline bool is_used(enum Column column) {
    if (column == PID_TEXT_COLUMN) return piece.all_have & PID_IS_TEXT;
    if (column == TID_TEXT_COLUMN) return piece.all_have & TID_IS_TEXT;
    return column < ARGUMENT_COLUMNS || columns.arguments >> (column - ARGUMENT_COLUMNS) & 1;
}

static inline bool goes_beside(const Event *event, uint8_t kind) {
    return plans[kind].held_beside && event->arguments & arguments.beside;
}

INLINE void set_present(enum Column column, uint8_t kind, uint32_t row) {
    columns.buffers[column].valid[row >> 3] |= (uint8_t)(1 << (row & 7));
    columns.filled[kind][column].present++;
}

// Where the text of this row goes; what is written there ends with `end_text`.
INLINE uint8_t *text_place(enum Column column, uint8_t kind, uint32_t row) {
    Filled *filled = &columns.filled[kind][column];
    uint32_t *offsets = columns.buffers[column].offsets;
    while (filled->next_row <= row) offsets[filled->next_row++] = filled->position;
    return columns.buffers[column].values + filled->position;
}

INLINE void end_text(enum Column column, uint8_t kind, uint32_t row, const uint8_t *end) {
    columns.filled[kind][column].position = (uint32_t)(end - columns.buffers[column].values);
    set_present(column, kind, row);
}

INLINE void put_text(enum Column column, uint8_t kind, uint32_t row, Text text) {
    end_text(column, kind, row, copied(text_place(column, kind, row), text));
}

INLINE void put_number(enum Column column, uint8_t kind, uint32_t row, bool there, int64_t number) {
    ((int64_t *)columns.buffers[column].values)[row] = there ? number : 0;
    if (there) set_present(column, kind, row);
}

// The value of an argument in its column; false where it does not fit.
static bool put_argument(uint8_t argument, uint8_t kind, uint32_t row, Text json) {
    enum Column column = ARGUMENT_COLUMNS + argument;
    int64_t *numbers = (int64_t *)columns.buffers[column].values;
    switch (arguments.types[argument]) {
        case INT64:
            if (!is_whole_number(json, &numbers[row])) return false;
            break;
        case INT32:
            if (!is_whole_number(json, &numbers[row])) return false;
            if (numbers[row] != (int32_t)numbers[row] && numbers[row] != UINT32_MAX) return false;
            break;
        case THREE:
            if (*json.at != '[') return false;
            set_present(column, kind, row);
            return is_three(json, &numbers[THREE_ITEMS * row]);
        case REAL:
            if (!is_number(json)) return false;
            if (*json.at == '"') json = (Text){json.at + 1, json.size - 2};
            put_text(column, kind, row, json);
            return true;
        case STRING:
            if (*json.at == '"') {
                uint8_t *to = text_place(column, kind, row);
                end_text(column, kind, row, unescaped(to, json.at + 1, json.at + json.size - 1));
                return true;
            }
            put_text(column, kind, row, json);
            return true;
        default:
            put_text(column, kind, row, json);
            return true;
    }
    set_present(column, kind, row);
    return true;
}

// Whether one of an event's own keys is also that of an argument that is left over, whose value is the one to keep.
static bool is_shadowed(const Event *event, const Member *extra, uint64_t held) {
    if (event->members > MOST_COMPARED) return false;
    const Member *members = members_of(event);
    for (uint32_t i = 0; i < event->members; i++) {
        const Member *member = &members[i];
        if (member->is & (IS_EXTRA | IS_NULL) || !equal(key_of(member), key_of(extra))) continue;
        return member->argument == UNKNOWN || !(held >> member->argument & 1);
    }
    return false;
}

INLINE uint8_t *with_member(uint8_t *to, bool first, const Member *member) {
    *to++ = first ? '{' : ',';
    return copied(to, (Text){member->at, member->size});
}

// The values of arguments that fit their columns. Bits of those that do not.
static uint64_t put_arguments(const Event *event, uint8_t kind, uint32_t row) {
    uint64_t wanted = plans[kind].columns & event->arguments, unfit = 0;
    if (!wanted) return 0;
    const Member *members = members_of(event);
    for (uint32_t i = 0; i < event->members; i++) {
        const Member *member = &members[i];
        uint8_t argument = member->argument;
        if (member->is & IS_NULL || argument == UNKNOWN || !(wanted >> argument & 1)) continue;
        if (put_argument(argument, kind, row, value_of(member))) continue;
        unfit |= 1ull << argument;
        Unfit *told = &columns.unfit[kind][argument];
        if (!told->count++) told->first = value_of(member);
    }
    return unfit;
}

// What is left over of an event's arguments, and behind that its own keys.
static void put_rest(enum Column column, const Event *event, uint8_t kind, uint32_t row, uint64_t held) {
    uint8_t *start = text_place(column, kind, row), *to = start;
    const Member *members = members_of(event);
    for (uint32_t extras = 0; extras < 2; extras++) {
        for (uint32_t i = 0; i < event->members; i++) {
            const Member *member = &members[i];
            if ((member->is & IS_EXTRA) != extras || member->is & IS_NULL) continue;
            bool out = extras ? is_shadowed(event, member, held)
                : member->argument != UNKNOWN && held >> member->argument & 1;
            if (!out) to = with_member(to, to == start, member);
        }
    }
    if (to == start) return;
    *to++ = '}';
    end_text(column, kind, row, to);
}

static void put_members(const Event *event, uint8_t kind, uint32_t row) {
    uint64_t unfit = put_arguments(event, kind, row);
    put_rest(REST_COLUMN, event, kind, row, plans[kind].held & ~unfit);
    if (!goes_beside(event, kind)) return;
    put_rest(REST_BESIDE_COLUMN, event, kind, row, plans[kind].held_beside & ~(unfit & plans[kind].columns_beside));
}

static void put_event(const Event *event, uint8_t kind, uint32_t row) {
    const Shape *shape = &piece.shapes[event->shape];
    uint32_t has = event->has, all = piece.all_have;
    if (shape->ph.at) put_text(PH_COLUMN, kind, row, shape->ph);
    if (shape->cat.at) put_text(CAT_COLUMN, kind, row, shape->cat);
    if (has & NAME) put_text(NAME_COLUMN, kind, row, event->name);
    if (all & PID_IS_TEXT && has & PID) put_text(PID_TEXT_COLUMN, kind, row, event->pid_text);
    if (all & TID_IS_TEXT && has & TID) put_text(TID_TEXT_COLUMN, kind, row, event->tid_text);
    put_number(PID_COLUMN, kind, row, (has & (PID | PID_IS_TEXT)) == PID, event->pid);
    put_number(TID_COLUMN, kind, row, (has & (TID | TID_IS_TEXT)) == TID, event->tid);
    put_number(START_COLUMN, kind, row, has & TS, event->start_ns);
    put_number(DUR_COLUMN, kind, row, has & DUR, event->dur_ns);
    if (!plans[kind].whole) put_members(event, kind, row);
    else if (has & ARGS) put_text(REST_COLUMN, kind, row, event->args);
}

// Adds up how many bytes the texts of an event can have.
static void count_event(const Event *event, uint8_t kind) {
    const Shape *shape = &piece.shapes[event->shape];
    Filled *filled = columns.filled[kind];
    columns.counts[kind]++;
    columns.arguments |= event->arguments & plans[kind].columns;
    filled[PH_COLUMN].position += shape->ph.size;
    filled[CAT_COLUMN].position += shape->cat.size;
    if (event->has & NAME) filled[NAME_COLUMN].position += event->name.size;
    if (event->has & PID) filled[PID_TEXT_COLUMN].position += event->pid_text.size;
    if (event->has & TID) filled[TID_TEXT_COLUMN].position += event->tid_text.size;
    uint32_t bytes = 2;
    const Member *members = members_of(event);
    for (uint32_t i = 0; i < event->members; i++) {
        bytes += members[i].size + 1;
        uint8_t argument = members[i].argument;
        if (argument != UNKNOWN) filled[ARGUMENT_COLUMNS + argument].position += members[i].size;
    }
    filled[REST_COLUMN].position += bytes;
    if (goes_beside(event, kind)) filled[REST_BESIDE_COLUMN].position += bytes;
}

static bool has_buffers(enum Column column) {
    uint32_t width = width_of(column), bytes = 0;
    for (uint32_t kind = 0; kind < MOST_KINDS; kind++) {
        Filled *filled = &columns.filled[kind][column];
        uint32_t of_kind = filled->position;
        *filled = (Filled){.position = bytes, .next_row = columns.starts[kind]};
        bytes += of_kind + PAD;  // what `copied` writes beyond a text must not be another kind's
    }
    Buffers *out = &columns.buffers[column];
    *out = (Buffers){
        .values = taken(width ? width * columns.rows : bytes),
        .valid = taken(columns.rows / 8 + 1),
        .offsets = width ? NULL : (uint32_t *)taken(sizeof(uint32_t) * (columns.rows + 1)),
    };
    if (!out->values || !out->valid || (!width && !out->offsets)) return false;
    cleared(out->valid, columns.rows / 8 + 1);
    return true;
}

// The offsets behind the last text of each kind.
static void end_texts(enum Column column) {
    uint32_t *offsets = columns.buffers[column].offsets;
    for (uint32_t kind = 0; kind < MOST_KINDS; kind++) {
        Filled *filled = &columns.filled[kind][column];
        uint32_t end = columns.starts[kind] + columns.counts[kind];
        if (filled->present)
            while (filled->next_row <= end) offsets[filled->next_row++] = filled->position;
    }
}

static void count_events(void) {
    cleared((uint8_t *)columns.counts, sizeof columns.counts);
    cleared((uint8_t *)columns.filled, sizeof columns.filled);
    cleared((uint8_t *)columns.unfit, sizeof columns.unfit);
    columns.arguments = 0;
    const Event *event = (const Event *)piece.events;
    for (uint32_t i = 0; i < piece.count; i++, event = next_event(event))
        if (!(event->has & ODD)) count_event(event, columns.kinds[event->shape]);
    columns.rows = 0;
    for (uint32_t kind = 0; kind < MOST_KINDS; kind++) {
        columns.starts[kind] = columns.rows;
        columns.rows += (columns.counts[kind] + 8) & ~7u;
    }
}

static void put_events(void) {
    uint32_t rows[MOST_KINDS];
    for (uint32_t kind = 0; kind < MOST_KINDS; kind++) rows[kind] = columns.starts[kind];
    Text *odd = columns.odd;
    const Event *event = (const Event *)piece.events;
    for (uint32_t i = 0; i < piece.count; i++, event = next_event(event)) {
        if (event->has & ODD) {
            *odd++ = event->name;
            continue;
        }
        uint8_t kind = columns.kinds[event->shape];
        put_event(event, kind, rows[kind]++);
    }
}

// False where there is no memory for it.
static bool laid_out(void) {
    count_events();
    if (!(columns.odd = (Text *)taken(sizeof(Text) * piece.odd))) return false;
    for (uint32_t column = 0; column <= LAST_COLUMN; column++)
        if (is_used(column) && !has_buffers(column)) return false;
    put_events();
    for (uint32_t column = 0; column <= LAST_COLUMN; column++)
        if (is_used(column) && !width_of(column)) end_texts(column);
    return true;
}
