// Memory of a WebAssembly module: all that is behind the linker's data.

#include "memory.h"

enum { PAGE_BITS = 16, SPARE_PAGES = 64 };

extern uint8_t __heap_base;  // the linker's

uint8_t *arena_start(void) { return &__heap_base; }

uint64_t grow_memory(uint64_t end) {
    uint64_t size = (uint64_t)__builtin_wasm_memory_size(0) << PAGE_BITS;
    if (end <= size) return size;
    uint64_t pages = ((end - size) >> PAGE_BITS) + SPARE_PAGES;
    if (__builtin_wasm_memory_grow(0, (size_t)pages) == (size_t)-1) return size;
    return size + (pages << PAGE_BITS);
}
