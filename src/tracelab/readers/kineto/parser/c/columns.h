// The events of a chunk as columns, as Arrow stores them, in order of their kinds.
//
// The rows of each kind begin at a multiple of eight, so that those of one kind are whole bytes of the validity bits,
// and there is one more row, for the offset behind the last text.
//
// Phases, categories and names are dictionaries: each kind has its different texts, and each row the number of its own.

#pragma once

#include "records.h"

enum { COLUMN_COUNT = COLUMN_FIRST_ARGUMENT + MAX_ARGUMENTS };

extern struct Columns {
    uint8_t kinds[MAX_SHAPES];  // by shape; Python writes them
    ColumnBuffers buffers[COLUMN_COUNT];
    uint32_t starts[MAX_KINDS], counts[MAX_KINDS];  // the rows of each kind
    ColumnFill fills[MAX_KINDS][COLUMN_COUNT];
    UnfitValues unfit[MAX_KINDS][MAX_ARGUMENTS];
    uint64_t arguments;  // the set of those that have a column
    uint64_t texts;      // the set of those whose columns are texts
    uint32_t ph_codes[MAX_SHAPES], cat_codes[MAX_SHAPES];  // by shape
    uint32_t name_count;  // rows with a name
    uint32_t row_count;   // with those between the kinds, which are empty
    Text *irregular;     // the irregular events
} columns;

// Returns false where there is no memory, a text column would exceed Arrow's 32-bit offsets, or there is no such kind.
bool fill_columns(void);
