// Sixteen bytes at a time: WebAssembly's vector instructions, or plain C where the target is another one.
//
// The plain version is for checking the parser natively, under sanitizers; it is not made to be fast.

#pragma once

#include <stdint.h>

#if defined(__wasm_simd128__)

#include <wasm_simd128.h>

typedef v128_t Bytes16;

static inline Bytes16 load16(const uint8_t *start) { return wasm_v128_load(start); }
static inline void store16(uint8_t *start, Bytes16 bytes) { wasm_v128_store(start, bytes); }
static inline Bytes16 zero16(void) { return wasm_i64x2_const_splat(0); }
static inline Bytes16 or16(Bytes16 one, Bytes16 other) { return wasm_v128_or(one, other); }

// A bit for each byte that is not ASCII.
static inline uint32_t non_ascii16(Bytes16 bytes) { return wasm_i8x16_bitmask(bytes); }

// A bit for each byte that both have in the same place.
static inline uint32_t equal16(Bytes16 one, Bytes16 other) { return wasm_i8x16_bitmask(wasm_i8x16_eq(one, other)); }

// A bit for each byte that is a space.
static inline uint32_t spaces16(Bytes16 bytes) {
    return wasm_i8x16_bitmask(wasm_i8x16_eq(bytes, wasm_u8x16_const_splat(' ')));
}

// A bit for each byte that ends a plain run in a JSON string: a quote, a backslash, a control character.
static inline uint32_t special16(Bytes16 bytes) {
    Bytes16 quotes = wasm_i8x16_eq(bytes, wasm_u8x16_const_splat('"'));
    Bytes16 backslashes = wasm_i8x16_eq(bytes, wasm_u8x16_const_splat('\\'));
    Bytes16 controls = wasm_i8x16_eq(wasm_u8x16_min(bytes, wasm_u8x16_const_splat(0x1f)), bytes);
    return wasm_i8x16_bitmask(or16(or16(quotes, backslashes), controls));
}

#else

typedef struct {
    uint8_t bytes[16];
} Bytes16;

static inline Bytes16 load16(const uint8_t *start) {
    Bytes16 bytes;
    __builtin_memcpy(bytes.bytes, start, 16);
    return bytes;
}

static inline void store16(uint8_t *start, Bytes16 bytes) { __builtin_memcpy(start, bytes.bytes, 16); }

static inline Bytes16 zero16(void) { return (Bytes16){{0}}; }

static inline Bytes16 or16(Bytes16 one, Bytes16 other) {
    for (int i = 0; i < 16; i++) one.bytes[i] |= other.bytes[i];
    return one;
}

static inline uint32_t non_ascii16(Bytes16 bytes) {
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++) bits |= (uint32_t)(bytes.bytes[i] >> 7) << i;
    return bits;
}

static inline uint32_t equal16(Bytes16 one, Bytes16 other) {
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++) bits |= (uint32_t)(one.bytes[i] == other.bytes[i]) << i;
    return bits;
}

static inline uint32_t spaces16(Bytes16 bytes) {
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++) bits |= (uint32_t)(bytes.bytes[i] == ' ') << i;
    return bits;
}

static inline uint32_t special16(Bytes16 bytes) {
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++) {
        uint8_t byte = bytes.bytes[i];
        bits |= (uint32_t)(byte == '"' || byte == '\\' || byte <= 0x1f) << i;
    }
    return bits;
}

#endif
