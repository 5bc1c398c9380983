#include "records.h"

struct Watched watched;
struct Chunk chunk;

uint8_t *allocate_text(uint32_t size) {
    reset_arena();
    return size <= MAX_CHUNK_BYTES ? allocate(size) : NULL;
}

bool allocate_chunk(uint32_t skipped, uint32_t size) {
    uint64_t end = (uint64_t)skipped + size;
    uint8_t *start = end <= MAX_CHUNK_BYTES ? allocate_text((uint32_t)end) : NULL;
    chunk.output.next = start ? allocate(size) : NULL;
    if (!chunk.output.next) return false;
    chunk.text = start + skipped;
    chunk.output.limit = chunk.output.next + size;
    chunk.end = chunk.text + size;
    chunk.first_event = (const Event *)(arena.next = align8(arena.next));
    return true;
}

void begin_chunk(bool repaired, int32_t time_exponent, int64_t base_ns) {
    chunk.repaired = repaired;
    chunk.time_exponent = time_exponent;
    chunk.base_ns = base_ns;
    chunk.output.seen = zero16();
    chunk.event_count = chunk.irregular_count = chunk.fields = chunk.shape_count = 0;
    __builtin_memset(chunk.shape_slots, 0, sizeof chunk.shape_slots);
    __builtin_memset(chunk.end, 0, PADDING);
}

Event *begin_event(void) {
    Event *event = extend(sizeof(Event));
    if (!event) return NULL;
    event->member_count = 0;
    event->arguments = 0;
    return event;
}

void end_event(Event *event, uint32_t fields) {
    event->fields = (uint16_t)fields;
    chunk.fields |= fields;
    chunk.event_count++;
    arena.next = align8(arena.next);
}

static inline bool are_same(Text one, Text other) {
    return !one.start == !other.start && texts_equal(one, other);
}

int32_t find_shape(Text ph, Text cat, uint8_t watched_name, bool has_watched_key) {
    uint32_t hash = hash_text(hash_text(watched_name * 2u + has_watched_key, ph), cat);
    for (;; hash++) {
        uint16_t *slot = &chunk.shape_slots[hash % SHAPE_SLOTS];
        if (!*slot) {
            if (chunk.shape_count == MAX_SHAPES) return -1;
            chunk.shapes[chunk.shape_count] = (Shape){ph, cat, watched_name, has_watched_key};
            *slot = (uint16_t)++chunk.shape_count;
        }
        const Shape *shape = &chunk.shapes[*slot - 1];
        if (shape->watched_name == watched_name && shape->has_watched_key == has_watched_key
            && are_same(shape->ph, ph) && are_same(shape->cat, cat)) return *slot - 1;
    }
}
