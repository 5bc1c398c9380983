// The layout of memory shared with Python.
// Generated from layout.toml by `make parser`; do not edit.

#pragma once

#include <stdbool.h>
#include <stdint.h>

// Arguments that the parser knows by name; sets of them are 64 bits.
#define MAX_ARGUMENTS 64

// Kinds of events, each with a plan for its arguments.
#define MAX_KINDS 64

// Shapes of the events of one chunk.
#define MAX_SHAPES 32768

// Names that are part of an event's shape.
#define MAX_WATCHED_NAMES 8

// Capacity for the text of all watched names and argument keys together.
#define NAMES_BYTES 4096

// The number in a shape whose events have no watched name.
#define NOT_WATCHED 255

// Integers in a value of the type INT32_LIST.
#define LIST_ITEMS 3

// The value of a list item that does not fit.
#define NO_ITEM INT64_MIN

// The columns of events; argument number n has column FIRST_ARGUMENT + n.
enum Column {
    COLUMN_PH = 0,
    COLUMN_CAT = 1,
    COLUMN_NAME = 2,
    COLUMN_PID = 3,
    COLUMN_TID = 4,
    COLUMN_START_NS = 5,
    COLUMN_DUR_NS = 6,
    COLUMN_LEFTOVER_ARGS = 7,
    COLUMN_SECONDARY_LEFTOVER_ARGS = 8,
    COLUMN_PID_TEXT = 9,
    COLUMN_TID_TEXT = 10,
    COLUMN_FIRST_ARGUMENT = 11,
};

// How the values of an argument are stored: REDUNDANT has no column, ID32 also accepts 4294967295, REAL keeps its text.
enum ArgumentType {
    TYPE_REDUNDANT = 0,
    TYPE_INT64 = 1,
    TYPE_INT32 = 2,
    TYPE_REAL = 3,
    TYPE_STRING = 4,
    TYPE_JSON = 5,
    TYPE_INT32_LIST = 6,
    TYPE_ID32 = 7,
};

// Bytes of UTF-8 in the parser's memory; a null address means that there is no text.
typedef struct {
    const uint8_t *start;
    uint32_t size;
} Text;

// What decides the kind of an event: its phase, category, watched name, and whether it has the watched key.
typedef struct {
    Text ph;
    Text cat;
    uint8_t watched_name;
    bool has_watched_key;
} Shape;

// The Arrow buffers of a column: numbers have no offsets; codes are those of a column whose texts are a dictionary.
typedef struct {
    uint8_t *values;
    uint8_t *validity;
    uint32_t *offsets;
    uint32_t *codes;
} ColumnBuffers;

// How far the rows of one kind fill a column: values present, bytes of text used and reserved, next text without
// offset.
typedef struct {
    uint32_t present;
    uint32_t position;
    uint32_t capacity;
    uint32_t next_text;
} ColumnFill;

// The values of an argument that do not fit its column: how many, and the first one as JSON.
typedef struct {
    uint32_t count;
    Text first;
} UnfitValues;
