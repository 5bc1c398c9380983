// The events of a Chrome trace as columns: a piece of its JSON in, Arrow's buffers out.
//
// A piece that is no clean JSON is refused, and read by the tolerant path, as single events are that are odd.
// `events.py` calls these functions in the order in which they stand here; `make parser` compiles them to parser.wasm.

#include "columns.h"

#define EXPORT(name) __attribute__((export_name(#name)))

static uint8_t letters[1 << 12];  // names and keys, one after the other
static uint32_t letters_used;

static Text next_letters(uint32_t size) {
    Text text = {letters + letters_used, size};
    letters_used += size;
    return text;
}

// Where the letters of the next name or key go.
EXPORT(letters_at) uint8_t *letters_at(void) { return letters + letters_used; }

// A name that is part of an event's shape.
EXPORT(add_name) void add_name(uint32_t size) { watched.names[watched.count++] = next_letters(size); }

EXPORT(add_argument) void add_argument(uint32_t size, uint32_t type) { add_key(next_letters(size), (enum Type)type); }

EXPORT(set_watched) void set_watched(uint32_t argument) { arguments.watched = (uint8_t)argument; }

EXPORT(set_beside) void set_beside(uint64_t bits) { arguments.beside = bits; }

EXPORT(set_plan) void set_plan(uint32_t kind, uint64_t wanted, uint64_t held, uint32_t whole) {
    plans[kind].columns = wanted;
    plans[kind].held = held;
    plans[kind].whole = whole;
}

EXPORT(set_plan_beside) void set_plan_beside(uint32_t kind, uint64_t wanted, uint64_t held) {
    plans[kind].columns_beside = wanted;
    plans[kind].held_beside = held;
}

// Where a piece of this size goes; NULL where there is no memory for it.
EXPORT(room_for) uint8_t *room_for(uint32_t size) {
    uint8_t *start = aligned(heap(), 64);
    uint64_t end = (uintptr_t)start + 2 * ((uint64_t)size + 2 * PAD);
    if (!grown_to(end, &piece.limit)) return NULL;
    piece.end = start + size;
    piece.text.to = start + size + PAD;
    piece.events = piece.free = aligned((uint8_t *)(uintptr_t)end, 8);
    return start;
}

// Parses the piece that is there; false where it is refused.
EXPORT(parse) bool parse(uint32_t mended, int32_t exponent, int64_t base_ns) {
    piece.mended = mended;
    piece.exponent = exponent;
    piece.base_ns = base_ns;
    piece.text.seen = zero16();
    piece.count = piece.odd = piece.all_have = piece.shape_count = 0;
    cleared((uint8_t *)piece.slots, sizeof piece.slots);
    cleared((uint8_t *)piece.end, PAD);
    Place p = behind_space(aligned(heap(), 64));
    for (;;) {
        if (*p != '{' || !(p = behind_event(p))) return false;
        p = behind_space(p);
        if (*p != ',') return p == piece.end;
        p = behind_space(p + 1);
    }
}

// Whether any character is not ASCII, and the piece must yet be shown to be UTF-8.
EXPORT(is_beyond_ascii) bool is_beyond_ascii(void) { return beyond_ascii16(piece.text.seen) != 0; }

EXPORT(shapes_at) const Shape *shapes_at(void) { return piece.shapes; }

EXPORT(shape_count) uint32_t shape_count(void) { return piece.shape_count; }

// Where the kind of each shape goes, a byte each.
EXPORT(kinds_at) uint8_t *kinds_at(void) { return columns.kinds; }

// Puts the events into columns, in order of their kinds; false where there is no memory for it.
EXPORT(lay_out) bool lay_out(void) { return laid_out(); }

EXPORT(starts_at) const uint32_t *starts_at(void) { return columns.starts; }

EXPORT(counts_at) const uint32_t *counts_at(void) { return columns.counts; }

EXPORT(filled_at) const Filled *filled_at(void) { return columns.filled[0]; }

EXPORT(buffers_at) const Buffers *buffers_at(void) { return columns.buffers; }

EXPORT(unfit_at) const Unfit *unfit_at(void) { return columns.unfit[0]; }

EXPORT(odd_at) const Text *odd_at(void) { return columns.odd; }

EXPORT(odd_count) uint32_t odd_count(void) { return piece.odd; }
