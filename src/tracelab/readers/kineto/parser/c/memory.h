// Texts in memory, and the arena from which all memory of a chunk is taken.

#pragma once

#include <stddef.h>

#include "layout.h"
#include "simd.h"

// In one function with its caller, so that values that a pointer leads to can stay in registers.
#define INLINE static inline __attribute__((always_inline))

// Where JSON is being read.
typedef const uint8_t *Cursor;

// Bytes behind every allocation that may be read and written, so that texts can be copied sixteen bytes at a time.
enum { PADDING = 64 };

// Compares texts; reads up to 15 bytes more of what is behind each.
static inline bool texts_equal(Text one, Text other) {
    if (one.size != other.size) return false;
    for (uint32_t i = 0; i < one.size; i += 16) {
        uint32_t different = ~equal16(load16(one.start + i), load16(other.start + i)) & 0xffff;
        if (different && i + (uint32_t)__builtin_ctz(different) < one.size) return false;
    }
    return true;
}

// Copies a text, and up to 15 bytes more of what is behind it; returns the end of the copy.
static inline uint8_t *copy_text(uint8_t *to, Text text) {
    for (uint32_t i = 0; i < text.size; i += 16) store16(to + i, load16(text.start + i));
    return to + text.size;
}

// Under AddressSanitizer, memory of the arena is accessible only where it is allocated.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKS_ADDRESSES 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(CHECKS_ADDRESSES)
#include <sanitizer/asan_interface.h>
#define ALLOW_ACCESS(start, size) __asan_unpoison_memory_region(start, size)
#define FORBID_ACCESS(start, size) __asan_poison_memory_region(start, size)
#else
#define ALLOW_ACCESS(start, size) ((void)0)
#define FORBID_ACCESS(start, size) ((void)0)
#endif

// Memory that is taken from its beginning to its end, and freed all at once.
extern struct Arena {
    uint8_t *next;
    uint64_t end;  // an address; beyond 32 bits where WebAssembly's memory is as large as it can be
} arena;

// Frees all memory.
void reset_arena(void);

// Frees the memory that was taken since the arena ended at `next`.
void rewind_arena(uint8_t *next);

// Makes the arena larger; returns false where there is no memory for it.
bool grow_arena(uint64_t size);

// Takes memory at a multiple of 64; returns NULL where there is none.
uint8_t *allocate(uint64_t size);

// Takes memory directly behind what was taken before; returns NULL where there is none.
static inline void *extend(uint32_t size) {
    if ((uintptr_t)arena.next + (uint64_t)size + PADDING > arena.end && !grow_arena(size)) return NULL;
    uint8_t *start = arena.next;
    ALLOW_ACCESS(start, size);
    arena.next += size;
    return start;
}

// The platform's part: where the arena begins, and its end after an attempt to grow it to `end`.
uint8_t *arena_start(void);
uint64_t grow_memory(uint64_t end);
