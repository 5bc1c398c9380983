#include "columns.h"

#include "decimal.h"

struct Columns columns;

// The different texts of a column, by hash: the number of a text's row plus one.
typedef struct {
    uint32_t hash, row;
} Slot;

typedef struct {
    Slot *slots;
    uint32_t mask;
} Dictionary;

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

static inline bool has_dictionary(uint32_t column) { return column <= COLUMN_NAME; }

static inline bool is_used(uint32_t column) {
    if (column == COLUMN_PID_TEXT) return chunk.fields & PID_IS_TEXT;
    if (column == COLUMN_TID_TEXT) return chunk.fields & TID_IS_TEXT;
    return column < COLUMN_FIRST_ARGUMENT || columns.arguments >> (column - COLUMN_FIRST_ARGUMENT) & 1;
}

static inline bool has_secondary_row(const Event *event, uint8_t kind) {
    return plans[kind].secondary_omitted && event->arguments & arguments.secondary;
}

INLINE void set_present(uint32_t column, uint32_t row) {
    columns.buffers[column].validity[row >> 3] |= (uint8_t)(1 << (row & 7));
}

// Where the text of this row begins; NULL where the column has no space for so many bytes. The text that is written
// there ends with `end_text`.
INLINE uint8_t *begin_text(uint32_t column, uint8_t kind, uint32_t row, uint32_t size) {
    ColumnFill *fill = &columns.fills[kind][column];
    if (size > fill->capacity - fill->position) return NULL;
    uint32_t *offsets = columns.buffers[column].offsets;
    while (fill->next_text <= row) offsets[fill->next_text++] = fill->position;
    return columns.buffers[column].values + fill->position;
}

INLINE void end_text(uint32_t column, uint8_t kind, uint32_t row, const uint8_t *end) {
    columns.fills[kind][column].position = (uint32_t)(end - columns.buffers[column].values);
    set_present(column, row);
}

INLINE bool append_text(uint32_t column, uint8_t kind, uint32_t row, Text text) {
    uint8_t *to = begin_text(column, kind, row, text.size);
    if (!to) return false;
    end_text(column, kind, row, copy_text(to, text));
    return true;
}

// Takes memory for a dictionary of so many texts; returns false where there is none.
static bool allocate_dictionary(Dictionary *dictionary, uint64_t texts) {
    uint64_t slots = 16;
    while (slots < 2 * texts) slots *= 2;
    dictionary->slots = (Slot *)allocate(sizeof(Slot) * slots);
    dictionary->mask = (uint32_t)slots - 1;
    if (dictionary->slots) __builtin_memset(dictionary->slots, 0, sizeof(Slot) * (size_t)slots);
    return dictionary->slots;
}

enum { NO_CODE = UINT32_MAX };

// The number of a text among the different ones that a column has in a kind; NO_CODE where there is no space for it.
INLINE uint32_t find_code(Dictionary *dictionary, uint32_t column, uint8_t kind, Text text) {
    uint32_t *offsets = columns.buffers[column].offsets, start = columns.starts[kind];
    uint8_t *values = columns.buffers[column].values;
    uint32_t hash = hash_text(kind, text);
    for (uint32_t i = hash;; i++) {
        Slot *slot = &dictionary->slots[i & dictionary->mask];
        if (!slot->row) {
            ColumnFill *fill = &columns.fills[kind][column];
            if (text.size > fill->capacity - fill->position) return NO_CODE;
            uint32_t row = fill->next_text++;
            offsets[row] = fill->position;
            offsets[row + 1] = fill->position = (uint32_t)(copy_text(values + fill->position, text) - values);
            *slot = (Slot){hash, row + 1};
            return row - start;
        }
        uint32_t row = slot->row - 1;
        if (slot->hash != hash || row < start || row - start >= columns.counts[kind]) continue;
        Text other = {values + offsets[row], offsets[row + 1] - offsets[row]};
        if (texts_equal(other, text)) return row - start;
    }
}

INLINE void set_code(uint32_t column, uint32_t row, bool present, uint32_t code) {
    columns.buffers[column].codes[row] = present ? code : 0;
    if (present) set_present(column, row);
}

INLINE void set_number(uint32_t column, uint32_t row, bool present, int64_t number) {
    ((int64_t *)columns.buffers[column].values)[row] = present ? number : 0;
    if (present) set_present(column, row);
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
            set_present(column, row);
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
    set_present(column, row);
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
    for (uint32_t own_keys = 0; own_keys <= (event->fields & HAS_OWN_KEYS); own_keys += HAS_OWN_KEYS) {
        for (uint32_t i = 0; i < event->member_count; i++) {
            const Member *member = &members[i];
            if (!(member->flags & IS_OWN_KEY) != !own_keys || member->flags & IS_NULL) continue;
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

static bool append_event(const Event *event, uint8_t kind, uint32_t row, Dictionary *names) {
    const Shape *shape = &chunk.shapes[event->shape];
    uint32_t fields = event->fields, all = chunk.fields;
    uint32_t name = fields & FIELD_NAME ? find_code(names, COLUMN_NAME, kind, event->name) : 0;
    bool fits = name != NO_CODE;
    set_code(COLUMN_PH, row, shape->ph.start, columns.ph_codes[event->shape]);
    set_code(COLUMN_CAT, row, shape->cat.start, columns.cat_codes[event->shape]);
    set_code(COLUMN_NAME, row, fields & FIELD_NAME, name);
    if (fits && all & PID_IS_TEXT && fields & FIELD_PID) fits = append_text(COLUMN_PID_TEXT, kind, row, event->pid_text);
    if (fits && all & TID_IS_TEXT && fields & FIELD_TID) fits = append_text(COLUMN_TID_TEXT, kind, row, event->tid_text);
    if (!fits) return false;
    set_number(COLUMN_PID, row, (fields & (FIELD_PID | PID_IS_TEXT)) == FIELD_PID, event->pid);
    set_number(COLUMN_TID, row, (fields & (FIELD_TID | TID_IS_TEXT)) == FIELD_TID, event->tid);
    set_number(COLUMN_START_NS, row, fields & FIELD_TS, event->start_ns);
    set_number(COLUMN_DUR_NS, row, fields & FIELD_DUR, event->dur_ns);
    if (!plans[kind].keeps_all) return append_members(event, kind, row);
    return !(fields & FIELD_ARGS) || append_text(COLUMN_LEFTOVER_ARGS, kind, row, event->args);
}

// Counts an event, and the bytes that its texts can have.
static void count_event(const Event *event, uint8_t kind) {
    ColumnFill *fills = columns.fills[kind];
    columns.counts[kind]++;
    columns.arguments |= event->arguments & plans[kind].columns;
    if (event->fields & FIELD_NAME) {
        fills[COLUMN_NAME].capacity += event->name.size;
        columns.name_count++;
    }
    if (event->fields & FIELD_PID) fills[COLUMN_PID_TEXT].capacity += event->pid_text.size;
    if (event->fields & FIELD_TID) fills[COLUMN_TID_TEXT].capacity += event->tid_text.size;
    uint32_t leftover = event->fields & FIELD_ARGS ? event->args.size : 2;
    if (event->fields & HAS_OWN_KEYS || event->arguments & columns.texts) {
        const Member *members = members_of(event);
        for (uint32_t i = 0; i < event->member_count; i++) {
            uint8_t argument = members[i].argument;
            if (argument != UNKNOWN_ARGUMENT) fills[COLUMN_FIRST_ARGUMENT + argument].capacity += members[i].size;
            if (members[i].flags & IS_OWN_KEY) leftover += members[i].size + 1;  // with a comma
        }
    }
    fills[COLUMN_LEFTOVER_ARGS].capacity += leftover;
    if (has_secondary_row(event, kind)) fills[COLUMN_SECONDARY_LEFTOVER_ARGS].capacity += leftover;
}

// Counts the events of each kind; returns false where a shape has no such kind.
static bool count_events(void) {
    __builtin_memset(columns.counts, 0, sizeof columns.counts);
    __builtin_memset(columns.fills, 0, sizeof columns.fills);
    __builtin_memset(columns.unfit, 0, sizeof columns.unfit);
    columns.arguments = columns.name_count = columns.texts = 0;
    for (uint32_t argument = 0; argument < arguments.count; argument++)
        if (!value_width(COLUMN_FIRST_ARGUMENT + argument)) columns.texts |= 1ull << argument;
    for (uint32_t number = 0; number < chunk.shape_count; number++) {
        if (columns.kinds[number] >= MAX_KINDS) return false;
        ColumnFill *fills = columns.fills[columns.kinds[number]];
        fills[COLUMN_PH].capacity += chunk.shapes[number].ph.size;
        fills[COLUMN_CAT].capacity += chunk.shapes[number].cat.size;
    }
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
            .next_text = columns.starts[kind],
        };
    }
    ColumnBuffers *buffers = &columns.buffers[column];
    uint64_t rows = columns.row_count, validity_bytes = rows / 8 + 1;
    *buffers = (ColumnBuffers){
        .values = allocate(width ? width * rows : bytes),
        .validity = allocate(validity_bytes),
        .offsets = width ? NULL : (uint32_t *)allocate(sizeof(uint32_t) * (rows + 1)),
        .codes = has_dictionary(column) ? (uint32_t *)allocate(sizeof(uint32_t) * rows) : NULL,
    };
    if (!buffers->values || !buffers->validity || (!width && !buffers->offsets)) return false;
    if (has_dictionary(column) && !buffers->codes) return false;
    __builtin_memset(buffers->validity, 0, (size_t)validity_bytes);
    return true;
}

// Counts the values of each kind.
static void count_present(uint32_t column) {
    for (uint32_t kind = 0; kind < MAX_KINDS; kind++) {
        const uint8_t *bytes = columns.buffers[column].validity + columns.starts[kind] / 8;
        uint32_t present = 0;
        for (uint32_t i = 0; i < (columns.counts[kind] + 7) / 8; i++) present += (uint32_t)__builtin_popcount(bytes[i]);
        columns.fills[kind][column].present = present;
    }
}

// Sets the offsets behind the last text of each kind.
static void end_texts(uint32_t column) {
    uint32_t *offsets = columns.buffers[column].offsets;
    for (uint32_t kind = 0; kind < MAX_KINDS; kind++) {
        ColumnFill *fill = &columns.fills[kind][column];
        uint32_t end = columns.starts[kind] + columns.counts[kind];
        if (fill->present)
            while (fill->next_text <= end) offsets[fill->next_text++] = fill->position;
    }
}

// Sets the codes of phases and categories, which follow from the shape of an event.
static bool set_shape_codes(void) {
    Dictionary phases, categories;
    uint32_t count = chunk.shape_count;
    if (!allocate_dictionary(&phases, count) || !allocate_dictionary(&categories, count)) return false;
    for (uint32_t number = 0; number < count; number++) {
        const Shape *shape = &chunk.shapes[number];
        uint8_t kind = columns.kinds[number];
        if (!columns.counts[kind]) continue;
        columns.ph_codes[number] = shape->ph.start ? find_code(&phases, COLUMN_PH, kind, shape->ph) : 0;
        columns.cat_codes[number] = shape->cat.start ? find_code(&categories, COLUMN_CAT, kind, shape->cat) : 0;
    }
    return true;
}

static bool append_events(void) {
    Dictionary names;
    if (!allocate_dictionary(&names, columns.name_count)) return false;
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
        if (!append_event(event, kind, rows[kind]++, &names)) return false;
    }
    return true;
}

bool fill_columns(void) {
    if (!count_events()) return false;
    columns.irregular = (Text *)allocate(sizeof(Text) * (uint64_t)chunk.irregular_count);
    if (!columns.irregular) return false;
    for (uint32_t column = 0; column < COLUMN_COUNT; column++)
        if (is_used(column) && !allocate_column(column)) return false;
    if (!set_shape_codes() || !append_events()) return false;
    for (uint32_t column = 0; column < COLUMN_COUNT; column++) {
        if (!is_used(column)) continue;
        count_present(column);
        if (!value_width(column) && !has_dictionary(column)) end_texts(column);
    }
    return true;
}
