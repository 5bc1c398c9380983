#include "json.h"

Cursor skip_long_space(Cursor cursor) {
    for (;;) {
        while (*cursor == '\n' || *cursor == '\r' || *cursor == '\t') cursor++;
        if (*cursor != ' ') return cursor;
        uint32_t others = ~spaces16(load16(cursor)) & 0xffff;  // an indentation is often longer than sixteen
        cursor += others ? (uint32_t)__builtin_ctz(others) : 16;
    }
}

// The value of four hexadecimal digits; -1 where they are none.
static int32_t parse_hex4(Cursor cursor) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t lower = cursor[i] | 0x20;
        int32_t digit = is_digit(cursor[i]) ? cursor[i] - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

Cursor parse_escape(Cursor cursor, uint32_t *code) {
    switch (cursor[1]) {
        case '"': case '\\': case '/': *code = cursor[1]; return cursor + 2;
        case 'b': *code = '\b'; return cursor + 2;
        case 'f': *code = '\f'; return cursor + 2;
        case 'n': *code = '\n'; return cursor + 2;
        case 'r': *code = '\r'; return cursor + 2;
        case 't': *code = '\t'; return cursor + 2;
        case 'u': break;
        default: return NULL;
    }
    int32_t unit = parse_hex4(cursor + 2);
    if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000)) return NULL;
    *code = (uint32_t)unit;
    if (unit < 0xd800 || unit >= 0xe000) return cursor + 6;
    int32_t low = cursor[6] == '\\' && cursor[7] == 'u' ? parse_hex4(cursor + 8) : -1;
    if (low < 0xdc00 || low >= 0xe000) return NULL;  // half of a surrogate pair
    *code = 0x10000 + (((uint32_t)unit - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
    return cursor + 12;
}

uint8_t *append_character(uint8_t *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (uint8_t)code;
        return to;
    }
    uint32_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t FIRST[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (uint8_t)(FIRST[more] | code >> (6 * more));
    while (more--) *to++ = (uint8_t)(0x80 | ((code >> (6 * more)) & 0x3f));
    return to;
}

uint8_t *append_escaped(uint8_t *to, uint32_t code) {
    static const char SHORT[] = "btn?fr";  // from 8 to 13
    static const char HEX[] = "0123456789abcdef";
    if (code == '"' || code == '\\') {
        *to++ = '\\';
        *to++ = (uint8_t)code;
    } else if (code >= 8 && code <= 13 && code != 11) {
        *to++ = '\\';
        *to++ = (uint8_t)SHORT[code - 8];
    } else if (code < 0x20) {
        *to++ = '\\';
        *to++ = 'u';
        *to++ = '0';
        *to++ = '0';
        *to++ = (uint8_t)HEX[code >> 4];
        *to++ = (uint8_t)HEX[code & 15];
    } else {
        to = append_character(to, code);
    }
    return to;
}

uint8_t *append_unescaped(uint8_t *to, Cursor cursor, Cursor end) {
    while (cursor < end) {
        uint32_t code = *cursor;
        if (code == '\\') {
            cursor = parse_escape(cursor, &code);
            to = append_character(to, code);
        } else {
            *to++ = *cursor++;
        }
    }
    return to;
}

// Skips a word, in lower case or upper case.
static Cursor skip_word(Cursor cursor, const char *lower) {
    for (; *lower; cursor++, lower++)
        if ((*cursor | 0x20) != *lower) return NULL;
    return cursor;
}

Cursor copy_not_finite(Cursor cursor, Output *out) {
    if (!has_space(out, 3)) return NULL;
    if (*cursor == '-') cursor++;
    Cursor end = skip_word(cursor, "nan");
    if (!end && !(end = skip_word(cursor, "infinity"))) end = skip_word(cursor, "inf");
    out->not_finite = true;
    *out->next++ = 'N';
    *out->next++ = 'a';
    *out->next++ = 'N';
    return end;
}

Cursor copy_value(Cursor cursor, Output *output) {
    static uint8_t closing[MAX_DEPTH];
    uint32_t depth = 0;
    Output local = *output, *out = &local;
    for (;;) {
        if (!has_space(out, 0)) return NULL;
        if (*cursor == '{' || *cursor == '[') {
            if (depth == MAX_DEPTH) return NULL;
            closing[depth++] = *cursor == '{' ? '}' : ']';
            *out->next++ = *cursor;
            cursor = skip_space(cursor + 1);
            if (*cursor != closing[depth - 1]) {
                if (closing[depth - 1] == '}' && !(cursor = copy_key(cursor, out))) return NULL;
                continue;
            }
        } else if (*cursor == '"') {
            *out->next++ = '"';
            if (!(cursor = copy_string(cursor + 1, out))) return NULL;
            *out->next++ = '"';
            cursor++;
        } else if (!(cursor = copy_scalar(cursor, out))) {
            return NULL;
        }
        for (;;) {  // behind a value, or at a closing bracket
            if (!depth) {
                *output = local;
                return cursor;
            }
            cursor = skip_space(cursor);
            bool more = *cursor == ',';
            if (more) cursor = skip_space(cursor + 1);
            if (*cursor == closing[depth - 1]) {
                if (!has_space(out, 0)) return NULL;
                *out->next++ = closing[--depth];
                cursor++;
                continue;
            }
            if (!more) return NULL;
            *out->next++ = ',';
            if (closing[depth - 1] == '}' && !(cursor = copy_key(cursor, out))) return NULL;
            break;
        }
    }
}
