// The module's memory: texts in it, sixteen bytes at a time, and room for more.

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd.h"

typedef const uint8_t *Place;

typedef struct {
    Place at;  // NULL: there is none
    uint32_t size;
} Text;

enum { PAD = 64 };  // readable and writable bytes behind every text, so that sixteen can be taken at once

static inline uint8_t *aligned(uint8_t *at, uint32_t to) {
    return (uint8_t *)(((uintptr_t)at + to - 1) & ~(uintptr_t)(to - 1));
}

static inline bool equal(Text one, Text other) {
    if (one.size != other.size) return false;
    for (uint32_t i = 0; i < one.size; i++)
        if (one.at[i] != other.at[i]) return false;
    return true;
}

// The place behind the copy.
static inline uint8_t *copied(uint8_t *to, Text text) {
    for (uint32_t i = 0; i < text.size; i += 16) store16(to + i, load16(text.at + i));
    return to + text.size;
}

static inline void cleared(uint8_t *at, uint32_t size) {
    for (uint32_t i = 0; i < size; i += 16) store16(at + i, zero16());
}
