// Fuzzes a native build of the parser: fuzz SECONDS SEED CRASH_FILE CORPUS_FILE...
//
// Inputs are mutated, and those that reach new code are kept and mutated further. The parser is built with
// -fsanitize-coverage=trace-pc, which gcc and clang both have. An input that breaks something is written to CRASH_FILE.

#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "columns.h"

enum { MAX_INPUT = 4096, MAX_CORPUS = 8192, EDGES = 1 << 16, OPTION_BYTES = 3, KINDS = 6 };

typedef struct {
    uint8_t *bytes;
    uint32_t size;
    bool built;  // it is JSON of events
} Input;

void reset(void);
uint8_t *reserve_name(uint32_t size);
bool add_watched_name(uint32_t size);
bool add_argument(uint32_t size, uint32_t type);
void set_watched_argument(uint32_t argument);
void set_secondary_arguments(uint64_t set);
bool set_plan(uint32_t kind, uint64_t columns_set, uint64_t omitted, uint32_t keeps_all);
bool set_secondary_plan(uint32_t kind, uint64_t columns_set, uint64_t omitted);
uint8_t *reserve_text(uint32_t size);
bool place_chunk(uint32_t skipped, uint32_t size);
bool parse_chunk(uint32_t repaired, int32_t time_exponent, int64_t base_ns);
bool has_non_ascii(void);
bool build_columns(void);

static uint8_t hits[EDGES], reached[EDGES];
static uintptr_t previous_edge;

void __sanitizer_cov_trace_pc(void) {
    uintptr_t here = (uintptr_t)__builtin_return_address(0);
    here ^= here >> 16;
    uintptr_t edge = (here ^ previous_edge) & (EDGES - 1);
    if (hits[edge] != 255) hits[edge]++;
    previous_edge = here >> 1;
}

static const char *crash_file;
static Input current;
static Input corpus[MAX_CORPUS];
static uint32_t corpus_size;
static uint64_t random_state;

static uint32_t random_below(uint32_t limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 11) % limit;
}

static void save_crash(void) {
    FILE *file = fopen(crash_file, "wb");
    if (!file) return;
    fwrite(current.bytes, 1, current.size, file);
    fclose(file);
    fprintf(stderr, "the input is in %s\n", crash_file);
}

static void check(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "broken: %s\n", what);
    save_crash();
    abort();
}

static const char *const TOKENS[] = {
    "{\"ph\":", "\"X\"", "\"args\":{", "\"ts\":", "\"dur\":", "\"pid\":", "\"tid\":", "\"cat\":", "\"name\":", "},", "},{",
    "NaN", "-inf", "null", "true", "\\u00e9", "\\ud83d\\ude00", "\\ud800", "\\\"", "[", "]", "[[", "]]", ",", ":", "\"",
    "0.0005", "9223372036854775807", "4294967295", "1e18", "1e-19", "-0", "    ", "                 ", "\xc3\xa9",
    "\"int\":", "\"small\":", "\"real\":", "\"text\":", "\"json\":", "\"list\":", "\"none\":", "\"watched\"", "[1,2,3]",
    "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
    "1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
    "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
};

static void add_name(const char *name, int type) {
    uint32_t size = (uint32_t)strlen(name);
    memcpy(reserve_name(size), name, size);
    check(type < 0 ? add_watched_name(size) : add_argument(size, (uint32_t)type), "a name fits");
}

static void configure(void) {
    static const char *const KEYS[] = {"none", "int", "small", "real", "text", "json", "list"};
    reset();
    add_name("watched", -1);
    for (int type = TYPE_REDUNDANT; type <= TYPE_INT32_LIST; type++) add_name(KEYS[type], type);
    set_watched_argument(TYPE_STRING);
    set_secondary_arguments(1 << TYPE_STRING | 1 << TYPE_INT64);
    set_plan(0, 0, 0, 0);
    set_plan(1, 0x7e, 0x7f, 0);
    set_plan(2, 0x7e, 0x03, 0);
    set_secondary_plan(2, 0x7c, 0x7e);
    set_plan(3, 0, 0, 1);
    set_plan(4, 0x54, 0x7f, 0);
    set_secondary_plan(4, 0x10, 0x01);
    set_plan(5, 0x2a, 0x2a, 0);
}

static void check_texts(uint32_t column, uint32_t kind) {
    const ColumnBuffers *buffers = &columns.buffers[column];
    uint32_t start = columns.starts[kind], end = start + columns.counts[kind], present = 0;
    volatile uint32_t sum = 0;
    for (uint32_t row = start; row < end; row++) {
        bool valid = buffers->validity[row >> 3] >> (row & 7) & 1;
        present += valid;
        check(buffers->offsets[row] <= buffers->offsets[row + 1], "offsets do not decrease");
        check(valid || buffers->offsets[row] == buffers->offsets[row + 1], "a null has no text");
        for (uint32_t i = buffers->offsets[row]; i < buffers->offsets[row + 1]; i++) sum += buffers->values[i];
    }
    const ColumnFill *fill = &columns.fills[kind][column];
    check(present == fill->present, "validity bits are counted");
    check(fill->position <= fill->capacity, "a column keeps to its capacity");
}

static Text dictionary_text(uint32_t column, uint32_t row) {
    const ColumnBuffers *buffers = &columns.buffers[column];
    check(buffers->offsets[row] <= buffers->offsets[row + 1], "offsets of a dictionary do not decrease");
    return (Text){buffers->values + buffers->offsets[row], buffers->offsets[row + 1] - buffers->offsets[row]};
}

static void check_dictionary(uint32_t column, uint32_t kind) {
    const ColumnBuffers *buffers = &columns.buffers[column];
    const ColumnFill *fill = &columns.fills[kind][column];
    uint32_t start = columns.starts[kind], end = start + columns.counts[kind], present = 0;
    check(fill->next_text > start && fill->next_text <= end, "no more texts than rows");
    check(fill->position <= fill->capacity, "a dictionary keeps to its capacity");
    for (uint32_t row = start; row < end; row++) {
        bool valid = buffers->validity[row >> 3] >> (row & 7) & 1;
        present += valid;
        check(valid ? buffers->codes[row] < fill->next_text - start : !buffers->codes[row], "a code is that of a text");
    }
    check(present == fill->present, "validity bits are counted");
    for (uint32_t row = start; row < fill->next_text; row++)
        for (uint32_t other = start; other < row && other < start + 64; other++)
            check(!texts_equal(dictionary_text(column, row), dictionary_text(column, other)), "texts are different");
}

static void check_columns(void) {
    uint32_t rows = 0;
    for (uint32_t kind = 0; kind < MAX_KINDS; kind++) {
        rows += columns.counts[kind];
        for (uint32_t column = 0; column < COLUMN_FIRST_ARGUMENT + 7; column++) {
            uint32_t type = column < COLUMN_FIRST_ARGUMENT ? TYPE_JSON : arguments.types[column - COLUMN_FIRST_ARGUMENT];
            bool is_text = type == TYPE_REAL || type == TYPE_STRING || type == TYPE_JSON;
            if (column >= COLUMN_PID && column <= COLUMN_DUR_NS) is_text = false;
            if (!columns.fills[kind][column].present) continue;
            if (column <= COLUMN_NAME) check_dictionary(column, kind);
            else if (is_text) check_texts(column, kind);
        }
    }
    check(rows + chunk.irregular_count == chunk.event_count, "every event is a row or irregular");
    volatile uint32_t sum = 0;
    for (uint32_t i = 0; i < chunk.irregular_count; i++)
        for (uint32_t j = 0; j < columns.irregular[i].size; j++) sum += columns.irregular[i].start[j];
}

// Parses an input: three bytes of options, and the text. Returns whether it became columns.
static bool run(Input input, uint32_t output_limit) {
    current = input;
    if (input.size < OPTION_BYTES) return false;
    uint8_t flags = input.bytes[0], kind_step = input.bytes[1], base = input.bytes[2];
    uint32_t size = input.size - OPTION_BYTES;
    uint8_t *text = reserve_text(base + size);
    check(text, "there is memory for a small text");
    memcpy(text + base, input.bytes + OPTION_BYTES, size);
    check(place_chunk(base, size), "there is memory for a small chunk");
    if (output_limit < size) {
        chunk.output.limit = chunk.output.next + output_limit;
        FORBID_ACCESS(chunk.output.limit + PADDING, size - output_limit);
    }
    previous_edge = 0;
    if (!parse_chunk(flags & 1, flags & 2 ? 3 : 0, (int64_t)base << 48)) return false;
    (void)has_non_ascii();
    bool kinds_exist = true;
    for (uint32_t shape = 0; shape < chunk.shape_count; shape++) {
        uint8_t kind = (uint8_t)((shape + kind_step) % KINDS);
        if (kind_step == 255) kind = (uint8_t)(shape + MAX_KINDS - 1);
        columns.kinds[shape] = kind;
        kinds_exist &= kind < MAX_KINDS;
    }
    bool built = build_columns();
    check(built == kinds_exist, "columns are built of all kinds that exist");
    if (built) check_columns();
    return built;
}

static bool reached_more(void) {
    bool more = false;
    for (uint32_t edge = 0; edge < EDGES; edge++) {
        if (!hits[edge]) continue;
        uint8_t level = hits[edge] < 4 ? hits[edge] : hits[edge] < 16 ? 4 : hits[edge] < 255 ? 5 : 6;
        if (level > reached[edge]) {
            reached[edge] = level;
            more = true;
        }
    }
    memset(hits, 0, sizeof hits);
    return more;
}

static void keep(Input input) {
    Input *slot = corpus_size < MAX_CORPUS ? &corpus[corpus_size++] : &corpus[random_below(MAX_CORPUS)];
    free(slot->bytes);
    *slot = (Input){malloc(input.size + 1), input.size, input.built};
    memcpy(slot->bytes, input.bytes, input.size);
}

// Replaces some bytes of an input by others.
static void replace(Input *input, uint32_t start, uint32_t removed, const uint8_t *bytes, uint32_t added) {
    if (input->size - removed + added > MAX_INPUT) return;
    memmove(input->bytes + start + added, input->bytes + start + removed, input->size - start - removed);
    memcpy(input->bytes + start, bytes, added);
    input->size += added - removed;
}

// An input of the corpus, more often one that is JSON of events.
static Input random_parent(void) {
    Input parent;
    for (int tries = 0; tries < 6; tries++)
        if ((parent = corpus[random_below(corpus_size)]).built) break;
    return parent;
}

static const uint8_t *random_token(uint32_t *size) {
    const char *token = TOKENS[random_below(sizeof TOKENS / sizeof *TOKENS)];
    *size = (uint32_t)strlen(token);
    return (const uint8_t *)token;
}

static bool is_structural(uint8_t byte) { return strchr("{}[]:,", byte) != NULL; }

// Replaces all between two structural characters, so that the input often stays JSON.
static void replace_between(Input *input) {
    uint32_t start = OPTION_BYTES + random_below(input->size), end;
    while (start < input->size && !is_structural(input->bytes[start])) start++;
    if (++start >= input->size) return;
    for (end = start; end < input->size && !is_structural(input->bytes[end]);) end++;
    uint32_t size;
    const uint8_t *token = random_token(&size);
    replace(input, start, end - start, token, size);
}

static void append_events(Input *input) {
    Input other = random_parent();
    if (other.size <= OPTION_BYTES) return;
    replace(input, input->size, 0, (const uint8_t *)",", 1);
    replace(input, input->size, 0, other.bytes + OPTION_BYTES, other.size - OPTION_BYTES);
}

static void mutate(Input *input) {
    uint8_t part[MAX_INPUT];
    for (uint32_t rounds = 1 + random_below(1 + random_below(4)); rounds; rounds--) {
        uint32_t start = random_below(input->size + 1), rest = input->size - start;
        uint32_t length = rest ? random_below(random_below(8) ? (rest < 16 ? rest : 16) : rest) + 1 : 0;
        switch (random_below(10)) {
            case 0:
                if (rest) input->bytes[start] ^= (uint8_t)(1 << random_below(8));
                break;
            case 1:
                if (rest) input->bytes[start] = (uint8_t)random_below(256);
                break;
            case 2:
                replace(input, start, length, part, 0);
                break;
            case 3: {
                uint32_t size;
                const uint8_t *token = random_token(&size);
                replace(input, start, random_below(2) ? length : 0, token, size);
                break;
            }
            case 4:
                memcpy(part, input->bytes + start, length);
                replace(input, random_below(input->size + 1), 0, part, length);
                break;
            case 5:
                append_events(input);
                break;
            case 6: {
                Input other = random_parent();
                uint32_t from = random_below(other.size + 1), size = random_below(other.size - from + 1);
                replace(input, start, length, other.bytes + from, size);
                break;
            }
            default:
                replace_between(input);
        }
    }
}

static void load(const char *path) {
    uint8_t bytes[MAX_INPUT] = {0};
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    Input input = {bytes, (uint32_t)fread(bytes, 1, sizeof bytes, file), false};
    fclose(file);
    for (uint32_t limit = 0; limit <= input.size; limit++) run(input, limit);
    for (uint8_t flags = 0; flags < 4 && input.size > 1; flags++) {
        bytes[0] = flags;
        for (bytes[1] = 0; bytes[1] < KINDS; bytes[1]++) run(input, UINT32_MAX);
        bytes[1] = 2;
        input.built = run(input, UINT32_MAX);
        keep(input);
    }
}

int main(int count, char **values) {
    if (count < 5) {
        fprintf(stderr, "usage: fuzz SECONDS SEED CRASH_FILE CORPUS_FILE...\n");
        return 2;
    }
    time_t end = time(NULL) + atoi(values[1]);
    random_state = strtoull(values[2], NULL, 10) * 0x9e3779b97f4a7c15 | 1;
    crash_file = values[3];
    __asan_set_death_callback(save_crash);
    configure();
    for (int i = 4; i < count; i++) load(values[i]);
    uint8_t *bytes = malloc(MAX_INPUT);
    uint64_t runs = 0, built = 0;
    do {
        for (int i = 0; i < 256; i++, runs++) {
            Input parent = random_parent(), input = {bytes, parent.size, false};
            memcpy(bytes, parent.bytes, parent.size);
            mutate(&input);
            built += input.built = run(input, random_below(8) ? UINT32_MAX : random_below(input.size + 1));
            if (reached_more()) keep(input);
        }
    } while (time(NULL) < end);
    uint32_t edges = 0;
    for (uint32_t edge = 0; edge < EDGES; edge++) edges += reached[edge] != 0;
    printf("%llu inputs, %llu of them parsed, %u kept, %u edges reached\n", (unsigned long long)runs,
           (unsigned long long)built, corpus_size, edges);
    return 0;
}
