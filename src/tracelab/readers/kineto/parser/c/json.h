// JSON text: strings, numbers, and whole values copied without the space in them.
//
// A function that takes a cursor returns the cursor behind what it has read, or NULL where there is no such thing.
// A NUL must be behind the text: it ends all loops. Functions that are called for every field of an event are here, to
// be compiled into their callers; the others are in json.c.

#pragma once

#include "memory.h"

enum { MAX_DEPTH = 1 << 16 };

// Copied values, and what was seen in all that was read.
typedef struct {
    uint8_t *next;
    const uint8_t *limit;  // PADDING more bytes are behind it
    Bytes16 seen;          // all bytes of strings, combined by or
    bool not_finite;       // whether a bare word was in place of a number
} Output;

Cursor skip_long_space(Cursor cursor);

// Parses the escape that begins with this backslash; `*code` becomes the character.
Cursor parse_escape(Cursor cursor, uint32_t *code);

// Appends a character as UTF-8: at most 4 bytes.
uint8_t *append_character(uint8_t *to, uint32_t code);

// Appends a character of a JSON string, escaped only where it must be, and in one way, so that equal texts have equal
// bytes: at most 6 bytes, and never more than it had in the source.
uint8_t *append_escaped(uint8_t *to, uint32_t code);

// Appends the text of a string with escapes; returns its end. It is not longer than its source.
uint8_t *append_unescaped(uint8_t *to, Cursor cursor, Cursor end);

// Copies a bare word like NaN or -inf that some writers use for numbers, which JSON does not know. All become NaN.
Cursor copy_not_finite(Cursor cursor, Output *out);

// Copies any value without the space in it, and without a comma behind the last item of an array or an object.
Cursor copy_value(Cursor cursor, Output *out);

// Whether so many bytes fit. A few bytes of punctuation may be appended unchecked after each check: PADDING has room.
INLINE bool has_space(const Output *out, uint32_t size) { return (ptrdiff_t)size <= out->limit - out->next; }

INLINE Cursor skip_space(Cursor cursor) {
    if (*cursor > ' ') return cursor;
    if (*cursor == ' ' && cursor[1] > ' ') return cursor + 1;
    return skip_long_space(cursor);
}

INLINE bool is_digit(uint8_t byte) { return (uint8_t)(byte - '0') < 10; }

// Finds the closing quote of the string whose first character is at the cursor.
INLINE Cursor find_string_end(Cursor cursor, Output *out, bool *escaped) {
    for (;;) {
        Bytes16 bytes = load16(cursor);
        out->seen = or16(out->seen, bytes);
        uint32_t special = special16(bytes);
        if (!special) {
            cursor += 16;
            continue;
        }
        cursor += __builtin_ctz(special);
        if (*cursor == '"') return cursor;
        uint32_t code;
        if (*cursor != '\\' || !(cursor = parse_escape(cursor, &code))) return NULL;
        *escaped = true;
    }
}

// Finds the same quote, and copies the string up to it.
INLINE Cursor copy_string(Cursor cursor, Output *out) {
    for (;;) {
        if (!has_space(out, 0)) return NULL;
        Bytes16 bytes = load16(cursor);
        store16(out->next, bytes);
        out->seen = or16(out->seen, bytes);
        uint32_t special = special16(bytes);
        if (!special) {
            cursor += 16;
            out->next += 16;
            continue;
        }
        uint32_t plain = (uint32_t)__builtin_ctz(special);
        cursor += plain;
        out->next += plain;
        if (*cursor == '"') return cursor;
        uint32_t code;
        Cursor end = *cursor == '\\' ? parse_escape(cursor, &code) : NULL;
        if (!end) return NULL;
        out->next = append_escaped(out->next, code);
        cursor = end;
    }
}

INLINE Cursor skip_digits(Cursor cursor) {
    if (!is_digit(*cursor)) return NULL;
    do cursor++;
    while (is_digit(*cursor));
    return cursor;
}

INLINE Cursor skip_number(Cursor cursor) {
    if (*cursor == '-') cursor++;
    if (!(cursor = *cursor == '0' ? cursor + 1 : skip_digits(cursor))) return NULL;
    if (*cursor == '.' && !(cursor = skip_digits(cursor + 1))) return NULL;
    if ((*cursor | 0x20) == 'e') {
        cursor++;
        cursor = skip_digits(*cursor == '+' || *cursor == '-' ? cursor + 1 : cursor);
    }
    return cursor;
}

INLINE Cursor skip_null(Cursor cursor) {
    return cursor[0] == 'n' && cursor[1] == 'u' && cursor[2] == 'l' && cursor[3] == 'l' ? cursor + 4 : NULL;
}

// Copies a number, true, false, null, or a bare word in place of a number.
INLINE Cursor copy_scalar(Cursor cursor, Output *out) {
    Cursor end = skip_number(cursor);
    if (!end && (end = skip_null(cursor)) == NULL) {
        if (*cursor == 't' && cursor[1] == 'r' && cursor[2] == 'u' && cursor[3] == 'e') end = cursor + 4;
        if (*cursor == 'f' && cursor[1] == 'a' && cursor[2] == 'l' && cursor[3] == 's' && cursor[4] == 'e')
            end = cursor + 5;
    }
    if (!end) return copy_not_finite(cursor, out);
    Text text = {cursor, (uint32_t)(end - cursor)};
    if (!has_space(out, text.size)) return NULL;
    out->next = copy_text(out->next, text);
    return end;
}

// Copies a key with its quotes and its colon; returns the cursor at its value.
INLINE Cursor copy_key(Cursor cursor, Output *out) {
    if (*cursor != '"') return NULL;
    *out->next++ = '"';
    if (!(cursor = copy_string(cursor + 1, out))) return NULL;
    *out->next++ = '"';
    cursor = skip_space(cursor + 1);
    if (*cursor != ':') return NULL;
    *out->next++ = ':';
    return skip_space(cursor + 1);
}
