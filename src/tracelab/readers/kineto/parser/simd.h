// What WebAssembly has for sixteen bytes at a time, and for more memory.

#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <wasm_simd128.h>

typedef v128_t Bytes16;

static inline Bytes16 load16(const uint8_t *at) { return wasm_v128_load(at); }
static inline void store16(uint8_t *at, Bytes16 bytes) { wasm_v128_store(at, bytes); }
static inline Bytes16 zero16(void) { return wasm_i64x2_const_splat(0); }
static inline Bytes16 or16(Bytes16 one, Bytes16 other) { return wasm_v128_or(one, other); }

// A bit for each byte that is not ASCII.
static inline uint32_t beyond_ascii16(Bytes16 bytes) { return wasm_i8x16_bitmask(bytes); }

// A bit for each byte that is a space.
static inline uint32_t spaces16(Bytes16 bytes) {
    return wasm_i8x16_bitmask(wasm_i8x16_eq(bytes, wasm_u8x16_const_splat(' ')));
}

// A bit for each byte that cannot just stand in a JSON string: a quote, a backslash, a control character.
static inline uint32_t special16(Bytes16 bytes) {
    Bytes16 quotes = wasm_i8x16_eq(bytes, wasm_u8x16_const_splat('"'));
    Bytes16 backslashes = wasm_i8x16_eq(bytes, wasm_u8x16_const_splat('\\'));
    Bytes16 controls = wasm_i8x16_eq(wasm_u8x16_min(bytes, wasm_u8x16_const_splat(0x1f)), bytes);
    return wasm_i8x16_bitmask(or16(or16(quotes, backslashes), controls));
}

extern uint8_t __heap_base;  // the linker's: where memory is free from
static inline uint8_t *heap(void) { return &__heap_base; }

// Whether there is memory up to `end`, which may have grown for it; `*limit` is where it ends now.
static bool grown_to(uint64_t end, uint64_t *limit) {
    uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    if (end > have) {
        uint64_t pages = ((end - have) >> 16) + 64;
        if (__builtin_wasm_memory_grow(0, (size_t)pages) == (size_t)-1) return false;
        have += pages << 16;
    }
    *limit = have;
    return true;
}
