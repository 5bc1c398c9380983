#include "memory.h"

struct Arena arena;

void reset_arena(void) {
    if (arena.next) FORBID_ACCESS(arena_start(), (size_t)(arena.next - arena_start()));
    arena.next = arena_start();
}

void rewind_arena(uint8_t *next) {
    FORBID_ACCESS(next, (size_t)(arena.next - next));
    arena.next = next;
}

bool grow_arena(uint64_t size) {
    uint64_t end = (uintptr_t)arena.next + size + PADDING;
    if (end > arena.end) arena.end = grow_memory(end);
    return end <= arena.end;
}

uint8_t *allocate(uint64_t size) {
    if (size > UINT32_MAX || !grow_arena(size + 2 * PADDING)) return NULL;
    uint8_t *start = arena.next + (-(uintptr_t)arena.next & 63);
    ALLOW_ACCESS(start, (size_t)size + PADDING);
    arena.next = start + size + PADDING;
    return start;
}
