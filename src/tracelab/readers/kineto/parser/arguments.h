// The arguments that tables have columns for, and which of them each kind of event gives.

#pragma once

#include "memory.h"

enum { MOST_KEYS = 64, KEY_SLOTS = 256, UNKNOWN = 255, MOST_KINDS = 64 };

enum Type {
    HELD,    // has no column, for another one says the same
    INT64,
    INT32,   // 4294967295 fits, too: the unsigned -1, which stands for none
    REAL,    // kept as the text of the number
    STRING,
    JSON,
    THREE,   // an array of three INT32
};

static struct {
    Text keys[MOST_KEYS];
    uint8_t types[MOST_KEYS];
    uint32_t count;
    uint8_t slots[KEY_SLOTS];  // by hash: the number of a key plus one
    uint8_t watched;           // a key that is part of an event's shape
    uint64_t beside;           // keys that make an event a row of a second table
} arguments;

// By kind, as bits of keys.
static struct {
    uint64_t columns, columns_beside;  // of all its tables, and of the second one
    uint64_t held, held_beside;  // what the leftover arguments of the first table, and of the second one, do without
    bool whole;                  // all arguments are left over, as they are
} plans[MOST_KINDS];

static inline uint32_t key_hash(Text key) {
    if (!key.size) return 0;
    return key.size * 31u + key.at[0] * 7u + key.at[key.size - 1] * 131u + key.at[key.size / 2] * 17u;
}

static inline uint8_t argument_of(Text key) {
    for (uint32_t hash = key_hash(key);; hash++) {
        uint8_t slot = arguments.slots[hash % KEY_SLOTS];
        if (!slot) return UNKNOWN;
        if (equal(key, arguments.keys[slot - 1])) return slot - 1;
    }
}

static void add_key(Text key, enum Type type) {
    uint32_t slot = key_hash(key);
    while (arguments.slots[slot % KEY_SLOTS]) slot++;
    arguments.keys[arguments.count] = key;
    arguments.types[arguments.count] = (uint8_t)type;
    arguments.slots[slot % KEY_SLOTS] = (uint8_t)++arguments.count;
}
