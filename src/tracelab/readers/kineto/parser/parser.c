// The events of a Chrome trace as columns: a piece of its JSON in, Arrow's buffers out.
//
// A piece that is not wholly healthy is refused, and read by the tolerant path. `parser.py` calls these functions in
// the order in which they stand here; `make parser` compiles them to parser.wasm.

#include "columns.h"

#define EXPORT(name) __attribute__((export_name(#name)))

static uint8_t letters[1 << 12];  // names and keys to watch for, one after the other
static uint32_t letters_used;

static Text watched_text(uint32_t size) {
    Text text = {letters + letters_used, size};
    letters_used += size;
    return text;
}

// Where the letters of the next name or key to watch for go.
EXPORT(letters_at) uint8_t *letters_at(void) { return letters + letters_used; }

EXPORT(watch_name) void watch_name(uint32_t size) { watched.names[watched.name_count++] = watched_text(size); }

EXPORT(watch_key) void watch_key(uint32_t size) { watched.keys[watched.key_count++] = watched_text(size); }

// Where a piece of this size goes; NULL where there is no memory for it.
EXPORT(room_for) uint8_t *room_for(uint32_t size) {
    uint8_t *start = aligned(heap(), 64);
    uint64_t end = (uintptr_t)start + 2 * ((uint64_t)size + 2 * PAD);
    if (!grown_to(end, &piece.limit)) return NULL;
    piece.end = start + size;
    piece.text = (Output){.to = start + size + PAD, .watched = watched.keys, .watched_count = watched.key_count};
    piece.events = piece.free = aligned((uint8_t *)(uintptr_t)end, 8);
    return start;
}

// Parses the piece that is there: how many events it has; -1 where it is refused.
EXPORT(parse) int32_t parse(int32_t exponent, int64_t base_ns) {
    piece.exponent = exponent;
    piece.base_ns = base_ns;
    piece.text.seen = zero16();
    piece.count = piece.all_have = piece.shape_count = piece.extra_key_count = 0;
    cleared((uint8_t *)piece.slots, sizeof piece.slots);
    cleared((uint8_t *)piece.end, PAD);
    Place p = behind_space(aligned(heap(), 64));
    for (;;) {
        if (*p != '{' || !(p = behind_event(p))) return -1;
        p = behind_space(p);
        if (*p != ',') return p == piece.end ? (int32_t)piece.count : -1;
        p = behind_space(p + 1);
    }
}

// Whether any character is not ASCII, and the piece must yet be shown to be UTF-8.
EXPORT(is_beyond_ascii) bool is_beyond_ascii(void) { return beyond_ascii16(piece.text.seen) != 0; }

EXPORT(shapes_at) const Shape *shapes_at(void) { return piece.shapes; }

EXPORT(shape_count) uint32_t shape_count(void) { return piece.shape_count; }

EXPORT(extra_keys_at) const Text *extra_keys_at(void) { return piece.extra_keys; }

EXPORT(extra_key_count) uint32_t extra_key_count(void) { return piece.extra_key_count; }

// Where the kind of each shape goes, a byte each.
EXPORT(kinds_at) uint8_t *kinds_at(void) { return columns.kinds; }

// Puts the events into columns, in order of their kinds; false where there is no memory for it.
EXPORT(lay_out) bool lay_out(void) { return laid_out(piece.all_have); }

EXPORT(starts_at) const uint32_t *starts_at(void) { return columns.starts; }

EXPORT(counts_at) const uint32_t *counts_at(void) { return columns.counts; }

EXPORT(filled_at) const Filled *filled_at(void) { return columns.filled[0]; }

EXPORT(buffers_at) const Buffers *buffers_at(void) { return columns.buffers; }
