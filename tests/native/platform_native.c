// Memory of a native build: a fixed region of which AddressSanitizer sees only what is allocated.

#include <sys/mman.h>

#include "memory.h"

enum { ARENA_BYTES = 256 << 20 };

uint8_t *arena_start(void) {
    static uint8_t *start;
    if (!start) {
        start = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED) __builtin_trap();
        FORBID_ACCESS(start, ARENA_BYTES);
    }
    return start;
}

uint64_t grow_memory(uint64_t end) {
    (void)end;
    return (uintptr_t)arena_start() + ARENA_BYTES;
}
