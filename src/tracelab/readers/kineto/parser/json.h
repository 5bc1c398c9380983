// JSON text: strings, numbers, and whole values copied without the space in them.
//
// A function that finds no such thing at a place gives NULL. What is behind the text must be a NUL: it ends all loops.

#pragma once

#include "memory.h"

// In one piece with its caller, so that what an Output holds stays in registers.
#define INLINE static inline __attribute__((always_inline))

enum { DEEPEST = 1 << 16 };

// A text that grows at its end, and what was seen in all that was read.
typedef struct {
    uint8_t *to;
    Bytes16 seen;     // all bytes of strings, one over the other
    bool not_finite;  // whether a bare word stands for a number
} Output;

static Place behind_much_space(Place p) {
    for (;;) {
        while (*p == '\n' || *p == '\r' || *p == '\t') p++;
        if (*p != ' ') return p;
        uint32_t others = ~spaces16(load16(p)) & 0xffff;  // an indentation
        p += others ? (uint32_t)__builtin_ctz(others) : 16;
    }
}

INLINE Place behind_space(Place p) {
    if (*p > ' ') return p;
    if (*p == ' ' && p[1] > ' ') return p + 1;
    return behind_much_space(p);
}

INLINE bool is_digit(uint8_t byte) { return (uint8_t)(byte - '0') < 10; }

static int32_t hex4(Place p) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t lower = p[i] | 0x20;
        int32_t digit = is_digit(p[i]) ? p[i] - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

// The place behind the escape that begins with the backslash at p; `*code` is the character that it stands for.
static Place behind_escape(Place p, uint32_t *code) {
    switch (p[1]) {
        case '"': case '\\': case '/': *code = p[1]; return p + 2;
        case 'b': *code = '\b'; return p + 2;
        case 'f': *code = '\f'; return p + 2;
        case 'n': *code = '\n'; return p + 2;
        case 'r': *code = '\r'; return p + 2;
        case 't': *code = '\t'; return p + 2;
        case 'u': break;
        default: return NULL;
    }
    int32_t unit = hex4(p + 2);
    if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000)) return NULL;
    *code = (uint32_t)unit;
    if (unit < 0xd800 || unit >= 0xe000) return p + 6;
    int32_t low = p[6] == '\\' && p[7] == 'u' ? hex4(p + 8) : -1;
    if (low < 0xdc00 || low >= 0xe000) return NULL;  // half of a character
    *code = 0x10000 + (((uint32_t)unit - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
    return p + 12;
}

// A character as UTF-8.
static uint8_t *with_character(uint8_t *to, uint32_t code) {
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

// What a string with escapes says; the place behind it.
static uint8_t *unescaped(uint8_t *to, Place p, Place end) {
    while (p < end) {
        uint32_t code = *p;
        if (code == '\\') {
            p = behind_escape(p, &code);
            to = with_character(to, code);
        } else {
            *to++ = *p++;
        }
    }
    return to;
}

// A character of a JSON string, escaped only where it must be, and in one way: so equal texts look equal.
static uint8_t *with_escape(uint8_t *to, uint32_t code) {
    static const char SHORT[] = "btn?fr";  // from 8 to 13
    static const char HEX[] = "0123456789abcdef";
    if (code == '"' || code == '\\') {
        *to++ = '\\';
        *to++ = (uint8_t)code;
    } else if (code >= 8 && code <= 13 && code != 11) {
        *to++ = '\\';
        *to++ = (uint8_t)SHORT[code - 8];
    } else if (code < 0x20) {
        to = copied(to, (Text){(Place)"\\u00                ", 4});
        *to++ = (uint8_t)HEX[code >> 4];
        *to++ = (uint8_t)HEX[code & 15];
    } else {
        to = with_character(to, code);
    }
    return to;
}

// The closing quote of the string whose first character is at p.
INLINE Place string_end(Place p, Output *out, bool *escaped) {
    for (;;) {
        Bytes16 bytes = load16(p);
        out->seen = or16(out->seen, bytes);
        uint32_t special = special16(bytes);
        if (!special) {
            p += 16;
            continue;
        }
        p += __builtin_ctz(special);
        if (*p == '"') return p;
        uint32_t code;
        if (*p != '\\' || !(p = behind_escape(p, &code))) return NULL;
        *escaped = true;
    }
}

// The same string, copied.
INLINE Place string_copied(Place p, Output *out) {
    for (;;) {
        Bytes16 bytes = load16(p);
        store16(out->to, bytes);
        out->seen = or16(out->seen, bytes);
        uint32_t special = special16(bytes);
        if (!special) {
            p += 16;
            out->to += 16;
            continue;
        }
        uint32_t plain = (uint32_t)__builtin_ctz(special);
        p += plain;
        out->to += plain;
        if (*p == '"') return p;
        uint32_t code;
        Place behind = *p == '\\' ? behind_escape(p, &code) : NULL;
        if (!behind) return NULL;
        out->to = with_escape(out->to, code);
        p = behind;
    }
}

INLINE Place behind_digits(Place p) {
    if (!is_digit(*p)) return NULL;
    do p++;
    while (is_digit(*p));
    return p;
}

INLINE Place behind_number(Place p) {
    if (*p == '-') p++;
    if (!(p = *p == '0' ? p + 1 : behind_digits(p))) return NULL;
    if (*p == '.' && !(p = behind_digits(p + 1))) return NULL;
    if ((*p | 0x20) == 'e') {
        p++;
        p = behind_digits(*p == '+' || *p == '-' ? p + 1 : p);
    }
    return p;
}

INLINE Place behind_null(Place p) {
    return p[0] == 'n' && p[1] == 'u' && p[2] == 'l' && p[3] == 'l' ? p + 4 : NULL;
}

// The place behind a word, written in small letters or in large ones.
static Place behind_word(Place p, const char *small) {
    for (; *small; p++, small++)
        if ((*p | 0x20) != *small) return NULL;
    return p;
}

// A bare word that some writers leave for a number that is none, which JSON does not know: all become NaN.
INLINE Place not_finite_copied(Place p, Output *out) {
    if (*p == '-') p++;
    Place behind = behind_word(p, "nan");
    if (!behind && !(behind = behind_word(p, "infinity"))) behind = behind_word(p, "inf");
    out->not_finite = true;
    *out->to++ = 'N';
    *out->to++ = 'a';
    *out->to++ = 'N';
    return behind;
}

INLINE Place scalar_copied(Place p, Output *out) {
    Place behind = behind_number(p);
    if (!behind && (behind = behind_null(p)) == NULL) {
        if (*p == 't' && p[1] == 'r' && p[2] == 'u' && p[3] == 'e') behind = p + 4;
        if (*p == 'f' && p[1] == 'a' && p[2] == 'l' && p[3] == 's' && p[4] == 'e') behind = p + 5;
    }
    if (!behind) return not_finite_copied(p, out);
    out->to = copied(out->to, (Text){p, (uint32_t)(behind - p)});
    return behind;
}

INLINE Place key_copied(Place p, Output *out) {
    if (*p != '"') return NULL;
    *out->to++ = '"';
    if (!(p = string_copied(p + 1, out))) return NULL;
    *out->to++ = '"';
    p = behind_space(p + 1);
    if (*p != ':') return NULL;
    *out->to++ = ':';
    return behind_space(p + 1);
}

// The value at p copied without the space in it; a comma behind the last item of an array or an object is left out.
static Place value_copied(Place p, Output *output) {
    static uint8_t closing[DEEPEST];
    uint32_t depth = 0;
    Output here = *output, *out = &here;
    for (;;) {
        if (*p == '{' || *p == '[') {
            if (depth == DEEPEST) return NULL;
            closing[depth++] = *p == '{' ? '}' : ']';
            *out->to++ = *p;
            p = behind_space(p + 1);
            if (*p != closing[depth - 1]) {
                if (closing[depth - 1] == '}' && !(p = key_copied(p, out))) return NULL;
                continue;
            }
        } else if (*p == '"') {
            *out->to++ = '"';
            if (!(p = string_copied(p + 1, out))) return NULL;
            *out->to++ = '"';
            p++;
        } else if (!(p = scalar_copied(p, out))) {
            return NULL;
        }
        for (;;) {  // behind a value, or at a closing bracket
            if (!depth) {
                *output = here;
                return p;
            }
            p = behind_space(p);
            bool more = *p == ',';
            if (more) p = behind_space(p + 1);
            if (*p == closing[depth - 1]) {
                *out->to++ = closing[--depth];
                p++;
                continue;
            }
            if (!more) return NULL;
            *out->to++ = ',';
            if (closing[depth - 1] == '}' && !(p = key_copied(p, out))) return NULL;
            break;
        }
    }
}
