#include "columns.h"

#include "decimal.h"

struct Columns columns;

// Bytes of each value; 0 for texts.
static inline uint32_t value_width(uint32_t column) {
    if (column >= COLUMN_PID && column <= COLUMN_DUR_NS) return sizeof(int64_t);
    if (column < COLUMN_FIRST_ARGUMENT) return 0;
    switch (arguments.types[column - COLUMN_FIRST_ARGUMENT]) {
        case TYPE_INT64: case TYPE_INT32: case TYPE_ID32: return sizeof(int64_t);
        case TYPE_INT32_LIST: return LIST_ITEMS * sizeof(int64_t);
        default: return 0;
    }
}

static inline bool is_used(uint32_t column) {
    if (column == COLUMN_PID_TEXT) return chunk.fields & PID_IS_TEXT;
    if (column == COLUMN_TID_TEXT) return chunk.fields & TID_IS_TEXT;
    return column < COLUMN_FIRST_ARGUMENT || columns.arguments >> (column - COLUMN_FIRST_ARGUMENT) & 1;
}

static inline bool has_secondary_row(const Event *event, uint8_t kind) {
    return plans[kind].secondary_omitted && event->arguments & arguments.secondary;
}

INLINE void set_present(uint32_t column, uint8_t kind, uint32_t row) {
    columns.buffers[column].validity[row >> 3] |= (uint8_t)(1 << (row & 7));
    columns.fills[kind][column].present++;
}

// Where the text of this row begins; NULL where the column has no space for so many bytes. The text that is written
// there ends with `end_text`.
INLINE uint8_t *begin_text(uint32_t column, uint8_t kind, uint32_t row, uint32_t size) {
    ColumnFill *fill = &columns.fills[kind][column];
    if (size > fill->capacity - fill->position) return NULL;
    uint32_t *offsets = columns.buffers[column].offsets;
    while (fill->next_row <= row) offsets[fill->next_row++] = fill->position;
    return columns.buffers[column].values + fill->position;
}

INLINE void end_text(uint32_t column, uint8_t kind, uint32_t row, const uint8_t *end) {
    columns.fills[kind][column].position = (uint32_t)(end - columns.buffers[column].values);
    set_present(column, kind, row);
}

INLINE bool append_text(uint32_t column, uint8_t kind, uint32_t row, Text text) {
    uint8_t *to = begin_text(column, kind, row, text.size);
    if (!to) return false;
    end_text(column, kind, row, copy_text(to, text));
    return true;
}

INLINE void set_number(uint32_t column, uint8_t kind, uint32_t row, bool present, int64_t number) {
    ((int64_t *)columns.buffers[column].values)[row] = present ? number : 0;
    if (present) set_present(column, kind, row);
}

enum Outcome { STORED, UNFIT, NO_SPACE };

// Stores the value of an argument in its column.
static enum Outcome store_argument(uint8_t argument, uint8_t kind, uint32_t row, Text json) {
    uint32_t column = COLUMN_FIRST_ARGUMENT + argument;
    int64_t *numbers = (int64_t *)columns.buffers[column].values;
    bool quoted = *json.start == '"';
    Text text = quoted ? (Text){json.start + 1, json.size - 2} : json;
    switch (arguments.types[argument]) {
        case TYPE_INT64:
            if (!parse_whole_number(json, &numbers[row])) return UNFIT;
            break;
        case TYPE_INT32: case TYPE_ID32:
            if (!parse_whole_number(json, &numbers[row])) return UNFIT;
            if (numbers[row] == (int32_t)numbers[row]) break;
            if (arguments.types[argument] == TYPE_INT32 || numbers[row] != UINT32_MAX) return UNFIT;
            break;
        case TYPE_INT32_LIST:
            if (*json.start != '[') return UNFIT;
            set_present(column, kind, row);
            return parse_int32_list(json, &numbers[LIST_ITEMS * row]) ? STORED : UNFIT;
        case TYPE_REAL:
            if (!is_number(json)) return UNFIT;
            return append_text(column, kind, row, text) ? STORED : NO_SPACE;
        case TYPE_STRING: {
            if (!quoted) return append_text(column, kind, row, json) ? STORED : NO_SPACE;
            uint8_t *to = begin_text(column, kind, row, text.size);
            if (!to) return NO_SPACE;
            end_text(column, kind, row, append_unescaped(to, text.start, text.start + text.size));
            return STORED;
        }
        default:
            return append_text(column, kind, row, json) ? STORED : NO_SPACE;
    }
    set_present(column, kind, row);
    return STORED;
}

// Stores the values of arguments that fit their columns; `*unfit` becomes the set of those that do not.
static bool store_arguments(const Event *event, uint8_t kind, uint32_t row, uint64_t *unfit) {
    uint64_t wanted = plans[kind].columns & event->arguments;
    *unfit = 0;
    if (!wanted) return true;
    const Member *members = members_of(event);
    for (uint32_t i = 0; i < event->member_count; i++) {
        const Member *member = &members[i];
        uint8_t argument = member->argument;
        if (member->flags & IS_NULL || argument == UNKNOWN_ARGUMENT || !(wanted >> argument & 1)) continue;
        enum Outcome outcome = store_argument(argument, kind, row, value_of(member));
        if (outcome == NO_SPACE) return false;
        if (outcome == STORED) continue;
        *unfit |= 1ull << argument;
        UnfitValues *values = &columns.unfit[kind][argument];
        if (!values->count++) values->first = value_of(member);
    }
    return true;
}

// Whether one of an event's own keys is also that of a leftover argument, whose value is the one to keep.
static bool is_shadowed(const Event *event, const Member *own, uint64_t omitted) {
    if (event->member_count > MAX_COMPARED_MEMBERS) return false;
    const Member *members = members_of(event);
    for (uint32_t i = 0; i < event->member_count; i++) {
        const Member *member = &members[i];
        if (member->flags & (IS_OWN_KEY | IS_NULL) || !texts_equal(key_of(member), key_of(own))) continue;
        return member->argument == UNKNOWN_ARGUMENT || !(omitted >> member->argument & 1);
    }
    return false;
}

// Appends the leftover arguments of an event, and behind them its own keys.
static bool append_leftover(uint32_t column, const Event *event, uint8_t kind, uint32_t row, uint64_t omitted) {
    uint8_t *start = begin_text(column, kind, row, 0), *to = start;
    const uint8_t *limit = columns.buffers[column].values + columns.fills[kind][column].capacity;
    if (!start) return false;
    const Member *members = members_of(event);
    for (uint32_t own_keys = 0; own_keys < 2; own_keys++) {
        for (uint32_t i = 0; i < event->member_count; i++) {
            const Member *member = &members[i];
            if ((member->flags & IS_OWN_KEY) != own_keys || member->flags & IS_NULL) continue;
            bool is_omitted = own_keys ? is_shadowed(event, member, omitted)
                : member->argument != UNKNOWN_ARGUMENT && omitted >> member->argument & 1;
            if (is_omitted) continue;
            if ((ptrdiff_t)member->size + 2 > limit - to) return false;  // with a brace or a comma, and a brace
            *to = to == start ? '{' : ',';
            to = copy_text(to + 1, (Text){member->start, member->size});
        }
    }
    if (to == start) return true;
    *to++ = '}';
    end_text(column, kind, row, to);
    return true;
}

static bool append_members(const Event *event, uint8_t kind, uint32_t row) {
    const Plan *plan = &plans[kind];
    uint64_t unfit;
    if (!store_arguments(event, kind, row, &unfit)) return false;
    if (!append_leftover(COLUMN_LEFTOVER_ARGS, event, kind, row, plan->omitted & ~unfit)) return false;
    if (!has_secondary_row(event, kind)) return true;
    uint64_t omitted = plan->secondary_omitted & ~(unfit & plan->secondary_columns);
    return append_leftover(COLUMN_SECONDARY_LEFTOVER_ARGS, event, kind, row, omitted);
}

static bool append_event(const Event *event, uint8_t kind, uint32_t row) {
    const Shape *shape = &chunk.shapes[event->shape];
    uint32_t fields = event->fields, all = chunk.fields;
    bool fits = (!shape->ph.start || append_text(COLUMN_PH, kind, row, shape->ph))
        && (!shape->cat.start || append_text(COLUMN_CAT, kind, row, shape->cat))
        && (!(fields & FIELD_NAME) || append_text(COLUMN_NAME, kind, row, event->name));
    if (fits && all & PID_IS_TEXT && fields & FIELD_PID) fits = append_text(COLUMN_PID_TEXT, kind, row, event->pid_text);
    if (fits && all & TID_IS_TEXT && fields & FIELD_TID) fits = append_text(COLUMN_TID_TEXT, kind, row, event->tid_text);
    if (!fits) return false;
    set_number(COLUMN_PID, kind, row, (fields & (FIELD_PID | PID_IS_TEXT)) == FIELD_PID, event->pid);
    set_number(COLUMN_TID, kind, row, (fields & (FIELD_TID | TID_IS_TEXT)) == FIELD_TID, event->tid);
    set_number(COLUMN_START_NS, kind, row, fields & FIELD_TS, event->start_ns);
    set_number(COLUMN_DUR_NS, kind, row, fields & FIELD_DUR, event->dur_ns);
    if (!plans[kind].keeps_all) return append_members(event, kind, row);
    return !(fields & FIELD_ARGS) || append_text(COLUMN_LEFTOVER_ARGS, kind, row, event->args);
}

// Counts an event, and the bytes that its texts can have.
static void count_event(const Event *event, uint8_t kind) {
    const Shape *shape = &chunk.shapes[event->shape];
    ColumnFill *fills = columns.fills[kind];
    columns.counts[kind]++;
    columns.arguments |= event->arguments & plans[kind].columns;
    fills[COLUMN_PH].capacity += shape->ph.size;
    fills[COLUMN_CAT].capacity += shape->cat.size;
    if (event->fields & FIELD_NAME) fills[COLUMN_NAME].capacity += event->name.size;
    if (event->fields & FIELD_PID) fills[COLUMN_PID_TEXT].capacity += event->pid_text.size;
    if (event->fields & FIELD_TID) fills[COLUMN_TID_TEXT].capacity += event->tid_text.size;
    uint32_t leftover = 2;  // braces, and with each member a comma
    const Member *members = members_of(event);
    for (uint32_t i = 0; i < event->member_count; i++) {
        uint8_t argument = members[i].argument;
        if (argument != UNKNOWN_ARGUMENT) fills[COLUMN_FIRST_ARGUMENT + argument].capacity += members[i].size;
        leftover += members[i].size + 1;
    }
    fills[COLUMN_LEFTOVER_ARGS].capacity += leftover;
    if (has_secondary_row(event, kind)) fills[COLUMN_SECONDARY_LEFTOVER_ARGS].capacity += leftover;
}

// Counts the events of each kind; returns false where a shape has no such kind.
static bool count_events(void) {
    for (uint32_t shape = 0; shape < chunk.shape_count; shape++)
        if (columns.kinds[shape] >= MAX_KINDS) return false;
    __builtin_memset(columns.counts, 0, sizeof columns.counts);
    __builtin_memset(columns.fills, 0, sizeof columns.fills);
    __builtin_memset(columns.unfit, 0, sizeof columns.unfit);
    columns.arguments = 0;
    const Event *event = chunk.first_event;
    for (uint32_t i = 0; i < chunk.event_count; i++, event = next_event(event))
        if (!(event->fields & IS_IRREGULAR)) count_event(event, columns.kinds[event->shape]);
    columns.row_count = 0;
    for (uint32_t kind = 0; kind < MAX_KINDS; kind++) {
        columns.starts[kind] = columns.row_count;
        columns.row_count += (columns.counts[kind] + 8) & ~7u;
    }
    return true;
}

// Takes memory for a column, and divides that for texts among the kinds.
static bool allocate_column(uint32_t column) {
    uint32_t width = value_width(column);
    uint64_t bytes = 0;
    for (uint32_t kind = 0; kind < MAX_KINDS; kind++) {
        ColumnFill *fill = &columns.fills[kind][column];
        uint64_t start = bytes;
        bytes += (uint64_t)fill->capacity + PADDING;  // what `copy_text` writes beyond a text must not be another kind's
        if (bytes > INT32_MAX) return false;
        *fill = (ColumnFill){
            .position = (uint32_t)start,
            .capacity = (uint32_t)(start + fill->capacity),
            .next_row = columns.starts[kind],
        };
    }
    ColumnBuffers *buffers = &columns.buffers[column];
    uint64_t rows = columns.row_count, validity_bytes = rows / 8 + 1;
    *buffers = (ColumnBuffers){
        .values = allocate(width ? width * rows : bytes),
        .validity = allocate(validity_bytes),
        .offsets = width ? NULL : (uint32_t *)allocate(sizeof(uint32_t) * (rows + 1)),
    };
    if (!buffers->values || !buffers->validity || (!width && !buffers->offsets)) return false;
    __builtin_memset(buffers->validity, 0, (size_t)validity_bytes);
    return true;
}

// Sets the offsets behind the last text of each kind.
static void end_texts(uint32_t column) {
    uint32_t *offsets = columns.buffers[column].offsets;
    for (uint32_t kind = 0; kind < MAX_KINDS; kind++) {
        ColumnFill *fill = &columns.fills[kind][column];
        uint32_t end = columns.starts[kind] + columns.counts[kind];
        if (fill->present)
            while (fill->next_row <= end) offsets[fill->next_row++] = fill->position;
    }
}

static bool append_events(void) {
    uint32_t rows[MAX_KINDS];
    for (uint32_t kind = 0; kind < MAX_KINDS; kind++) rows[kind] = columns.starts[kind];
    Text *irregular = columns.irregular;
    const Event *event = chunk.first_event;
    for (uint32_t i = 0; i < chunk.event_count; i++, event = next_event(event)) {
        if (event->fields & IS_IRREGULAR) {
            *irregular++ = event->name;
            continue;
        }
        uint8_t kind = columns.kinds[event->shape];
        if (!append_event(event, kind, rows[kind]++)) return false;
    }
    return true;
}

bool fill_columns(void) {
    if (!count_events()) return false;
    columns.irregular = (Text *)allocate(sizeof(Text) * (uint64_t)chunk.irregular_count);
    if (!columns.irregular) return false;
    for (uint32_t column = 0; column < COLUMN_COUNT; column++)
        if (is_used(column) && !allocate_column(column)) return false;
    if (!append_events()) return false;
    for (uint32_t column = 0; column < COLUMN_COUNT; column++)
        if (is_used(column) && !value_width(column)) end_texts(column);
    return true;
}
