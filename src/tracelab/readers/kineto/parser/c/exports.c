// The functions that Python calls, in the order in which it calls them.

#include "columns.h"
#include "events.h"

#if defined(__wasm__)
#define EXPORT(type, name) __attribute__((export_name(#name))) type name
#else
#define EXPORT(type, name) type name
#endif

static uint8_t names[NAMES_BYTES + PADDING];  // watched names and argument keys, one after the other
static uint32_t names_size;

static Text take_name(uint32_t size) {
    Text name = {names + names_size, size};
    names_size += size;
    return name;
}

// Forgets all names, arguments and plans.
EXPORT(void, reset)(void) {
    names_size = watched.count = 0;
    arguments = (struct Arguments){.count = 0};
    __builtin_memset(plans, 0, sizeof plans);
}

// Where the text of the next name or key goes; NULL where there is no space for it.
EXPORT(uint8_t *, reserve_name)(uint32_t size) {
    return size <= NAMES_BYTES - names_size ? names + names_size : NULL;
}

// Adds the text there as a name that is part of an event's shape; returns false where there is no space for it.
EXPORT(bool, add_watched_name)(uint32_t size) {
    if (!reserve_name(size) || watched.count == MAX_WATCHED_NAMES) return false;
    watched.names[watched.count++] = take_name(size);
    return true;
}

// Adds the text there as the key of an argument; returns false where there is no space for it.
EXPORT(bool, add_argument)(uint32_t size, uint32_t type) {
    return reserve_name(size) && add_known_argument(take_name(size), (enum ArgumentType)type);
}

EXPORT(void, set_watched_argument)(uint32_t argument) {
    arguments.watched = (uint8_t)(argument % MAX_ARGUMENTS);
}

EXPORT(void, set_secondary_arguments)(uint64_t set) { arguments.secondary = set; }

// Sets what becomes of the arguments of a kind; returns false where there is no such kind.
EXPORT(bool, set_plan)(uint32_t kind, uint64_t columns_set, uint64_t omitted, uint32_t keeps_all) {
    if (kind >= MAX_KINDS) return false;
    plans[kind].columns = columns_set;
    plans[kind].omitted = omitted;
    plans[kind].keeps_all = keeps_all;
    return true;
}

// The same for its second table.
EXPORT(bool, set_secondary_plan)(uint32_t kind, uint64_t columns_set, uint64_t omitted) {
    if (kind >= MAX_KINDS) return false;
    plans[kind].secondary_columns = columns_set;
    plans[kind].secondary_omitted = omitted;
    return true;
}

// Where text can be read to from which a chunk is taken with `place_chunk`; NULL where there is no memory for it.
EXPORT(uint8_t *, reserve_text)(uint32_t size) { return allocate_text(size); }

// Takes as the chunk so many bytes of that text, behind some that are skipped; returns false where there is no memory
// for its values. Overwrites what follows them.
EXPORT(bool, place_chunk)(uint32_t skipped, uint32_t size) { return allocate_chunk(skipped, size); }

// Where a chunk of this size goes; NULL where there is no memory for it.
EXPORT(uint8_t *, reserve_chunk)(uint32_t size) { return allocate_chunk(0, size) ? chunk.text : NULL; }

// Parses the chunk; returns false where it is not valid JSON of events.
EXPORT(bool, parse_chunk)(uint32_t repaired, int32_t time_exponent, int64_t base_ns) {
    begin_chunk(repaired, time_exponent, base_ns);
    Cursor cursor = skip_space(chunk.text);
    for (;;) {
        if (*cursor != '{' || !(cursor = parse_event(cursor))) return false;
        cursor = skip_space(cursor);
        if (*cursor != ',') return cursor == chunk.end;
        cursor = skip_space(cursor + 1);
    }
}

// Whether a byte of a string is not ASCII, so that the chunk must also be checked for valid UTF-8.
EXPORT(bool, has_non_ascii)(void) { return non_ascii16(chunk.output.seen) != 0; }

EXPORT(const Shape *, get_shapes)(void) { return chunk.shapes; }

EXPORT(uint32_t, count_shapes)(void) { return chunk.shape_count; }

// Where the kind of each shape goes, a byte each.
EXPORT(uint8_t *, get_kinds)(void) { return columns.kinds; }

// Builds the columns; returns false where that is not possible.
EXPORT(bool, build_columns)(void) { return fill_columns(); }

EXPORT(const uint32_t *, get_starts)(void) { return columns.starts; }

EXPORT(const uint32_t *, get_counts)(void) { return columns.counts; }

EXPORT(const ColumnFill *, get_fills)(void) { return columns.fills[0]; }

EXPORT(const ColumnBuffers *, get_buffers)(void) { return columns.buffers; }

EXPORT(const UnfitValues *, get_unfit)(void) { return columns.unfit[0]; }

EXPORT(const Text *, get_irregular)(void) { return columns.irregular; }

EXPORT(uint32_t, count_irregular)(void) { return chunk.irregular_count; }
