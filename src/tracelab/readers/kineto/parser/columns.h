// Events in order of their kinds, column by column, as Arrow lays columns out.
//
// The rows of each kind begin at a multiple of eight, so that those of one kind are whole bytes of the validity bits,
// and there is one more, for the offset behind the last text.

#pragma once

#include "events.h"

enum { MOST_KINDS = 64 };
enum Column {
    PH_COLUMN, CAT_COLUMN, NAME_COLUMN, PID_COLUMN, TID_COLUMN, START_COLUMN, DUR_COLUMN, ARGS_COLUMN,
    PID_TEXT_COLUMN, TID_TEXT_COLUMN, EXTRA_COLUMNS,
    ALL_COLUMNS = EXTRA_COLUMNS + MOST_EXTRA_KEYS + 2,  // a multiple of four
};

typedef struct {
    uint8_t *values, *valid;
    uint32_t *offsets;  // NULL for a column of int64
} Buffers;

typedef struct {
    uint32_t present;   // events that have the column
    uint32_t position;  // of the next text, among the bytes of all; before texts are put, how many bytes they have
    uint32_t next_row;  // the first one without an offset
} Filled;

static struct {
    uint8_t kinds[MOST_SHAPES];  // of the shapes, to be filled before
    Buffers buffers[ALL_COLUMNS];
    uint32_t starts[MOST_KINDS], counts[MOST_KINDS];  // the rows of each kind
    Filled filled[MOST_KINDS][ALL_COLUMNS];
    uint32_t rows;  // with those between the kinds, which are empty
} columns;

static uint8_t *taken(size_t bytes) {
    piece.free = aligned(piece.free, 64);
    if (!has_room(bytes)) return NULL;
    uint8_t *at = piece.free;
    piece.free += bytes + PAD;
    return at;
}

typedef void Visit(enum Column column, uint8_t kind, uint32_t row, Text text);

// Visits each text that an event has; those of ids where `all`, the bits of all events, says that some are no numbers.
INLINE void visit_texts(const Event *event, uint32_t all, uint8_t kind, uint32_t row, Visit visit) {
    const Shape *shape = &piece.shapes[event->shape];
    const Extra *extras = (const Extra *)(event + 1);
    if (shape->ph.at) visit(PH_COLUMN, kind, row, shape->ph);
    if (shape->cat.at) visit(CAT_COLUMN, kind, row, shape->cat);
    if (event->has & NAME) visit(NAME_COLUMN, kind, row, event->name);
    if (event->has & ARGS) visit(ARGS_COLUMN, kind, row, event->args);
    if (all & PID_IS_TEXT && event->has & PID) visit(PID_TEXT_COLUMN, kind, row, event->pid_text);
    if (all & TID_IS_TEXT && event->has & TID) visit(TID_TEXT_COLUMN, kind, row, event->tid_text);
    for (uint32_t i = 0; i < event->extras; i++) visit(EXTRA_COLUMNS + extras[i].key, kind, row, extras[i].json);
}

INLINE void set_present(enum Column column, uint8_t kind, uint32_t row) {
    columns.buffers[column].valid[row >> 3] |= (uint8_t)(1 << (row & 7));
    columns.filled[kind][column].present++;
}

INLINE void count_text(enum Column column, uint8_t kind, uint32_t row, Text text) {
    (void)row;
    columns.filled[kind][column].position += text.size;
}

INLINE void put_text(enum Column column, uint8_t kind, uint32_t row, Text text) {
    Buffers *out = &columns.buffers[column];
    Filled *filled = &columns.filled[kind][column];
    while (filled->next_row <= row) out->offsets[filled->next_row++] = filled->position;
    set_present(column, kind, row);
    copied(out->values + filled->position, text);
    filled->position += text.size;
}

INLINE void put_number(enum Column column, uint8_t kind, uint32_t row, bool there, int64_t number) {
    ((int64_t *)columns.buffers[column].values)[row] = there ? number : 0;
    if (there) set_present(column, kind, row);
}

static void count_events(uint32_t all) {
    cleared((uint8_t *)columns.counts, sizeof columns.counts);
    cleared((uint8_t *)columns.filled, sizeof columns.filled);
    const Event *event = (const Event *)piece.events;
    for (uint32_t i = 0; i < piece.count; i++, event = next_event(event)) {
        uint8_t kind = columns.kinds[event->shape];
        columns.counts[kind]++;
        visit_texts(event, all, kind, 0, count_text);
    }
    columns.rows = 0;
    for (uint32_t kind = 0; kind < MOST_KINDS; kind++) {
        columns.starts[kind] = columns.rows;
        columns.rows += (columns.counts[kind] + 8) & ~7u;
    }
}

static bool has_buffers(enum Column column) {
    bool numbers = column >= PID_COLUMN && column <= DUR_COLUMN;
    uint32_t bytes = 0;
    for (uint32_t kind = 0; kind < MOST_KINDS; kind++) {
        Filled *filled = &columns.filled[kind][column];
        uint32_t of_kind = filled->position;
        *filled = (Filled){.position = bytes, .next_row = columns.starts[kind]};
        bytes += of_kind + PAD;  // what `copied` writes beyond a text must not be another kind's
    }
    Buffers *out = &columns.buffers[column];
    *out = (Buffers){
        .values = taken(numbers ? sizeof(int64_t) * columns.rows : bytes),
        .valid = taken(columns.rows / 8 + 1),
        .offsets = numbers ? NULL : (uint32_t *)taken(sizeof(uint32_t) * (columns.rows + 1)),
    };
    if (!out->values || !out->valid || (!numbers && !out->offsets)) return false;
    cleared(out->valid, columns.rows / 8 + 1);
    return true;
}

static void put_events(uint32_t all) {
    uint32_t rows[MOST_KINDS];
    for (uint32_t kind = 0; kind < MOST_KINDS; kind++) rows[kind] = columns.starts[kind];
    const Event *event = (const Event *)piece.events;
    for (uint32_t i = 0; i < piece.count; i++, event = next_event(event)) {
        uint8_t kind = columns.kinds[event->shape];
        uint32_t row = rows[kind]++, has = event->has;
        visit_texts(event, all, kind, row, put_text);
        put_number(PID_COLUMN, kind, row, (has & (PID | PID_IS_TEXT)) == PID, event->pid);
        put_number(TID_COLUMN, kind, row, (has & (TID | TID_IS_TEXT)) == TID, event->tid);
        put_number(START_COLUMN, kind, row, has & TS, event->start_ns);
        put_number(DUR_COLUMN, kind, row, has & DUR, event->dur_ns);
    }
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

// False where there is no memory for it. `all` is what any of the events has.
static bool laid_out(uint32_t all) {
    count_events(all);
    for (uint32_t column = 0; column < EXTRA_COLUMNS + piece.extra_key_count; column++)
        if (!has_buffers(column)) return false;
    put_events(all);
    for (uint32_t column = 0; column < EXTRA_COLUMNS + piece.extra_key_count; column++)
        if (columns.buffers[column].offsets) end_texts(column);
    return true;
}
