// The arguments that the parser knows by name, and what becomes of them in each kind of event.

#pragma once

#include "memory.h"

enum { KEY_SLOTS = 4 * MAX_ARGUMENTS, UNKNOWN_ARGUMENT = 255 };

extern struct Arguments {
    Text keys[MAX_ARGUMENTS];
    uint8_t types[MAX_ARGUMENTS];
    uint32_t count;
    uint8_t slots[KEY_SLOTS];  // by hash: the number of an argument plus one
    uint8_t watched;           // the argument that is part of an event's shape
    uint64_t secondary;        // arguments that make an event a row of a second table
} arguments;

// By kind, as sets of arguments.
typedef struct {
    uint64_t columns;            // those with a column, in any table of the kind
    uint64_t secondary_columns;  // those among them with a column in the second table
    uint64_t omitted;            // those that the leftover arguments of the first table do without
    uint64_t secondary_omitted;  // the same for the second table
    bool keeps_all;              // the leftover arguments are all arguments, as they are
} Plan;

extern Plan plans[MAX_KINDS];

// Adds an argument; returns false where there is no space for it.
bool add_known_argument(Text key, enum ArgumentType type);

static inline uint32_t hash_key(Text key) {
    if (!key.size) return 0;
    return key.size * 31u + key.start[0] * 7u + key.start[key.size - 1] * 131u + key.start[key.size / 2] * 17u;
}

// The number of an argument, or UNKNOWN_ARGUMENT.
static inline uint8_t find_argument(Text key) {
    for (uint32_t hash = hash_key(key);; hash++) {
        uint8_t slot = arguments.slots[hash % KEY_SLOTS];
        if (!slot) return UNKNOWN_ARGUMENT;
        if (texts_equal(key, arguments.keys[slot - 1])) return slot - 1;
    }
}
