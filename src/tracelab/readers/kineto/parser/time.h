// Decimal numbers as integers, exact to the last digit.

#pragma once

#include "json.h"

enum { MOST_DIGITS = 19, LARGEST_POWER = 18 };

static const uint64_t POWERS[LARGEST_POWER + 1] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u, 10000000000u, 100000000000u,
    1000000000000u, 10000000000000u, 100000000000000u, 1000000000000000u, 10000000000000000u, 100000000000000000u,
    1000000000000000000u,
};

// A decimal times a power of ten, plus an offset, as an integer: half to even, as Python's `round` of a Decimal.
// NULL also where it does not fit, or has more digits than can be held exactly here; `*whole_number` tells that nothing
// was rounded.
static Place behind_decimal(Place p, int32_t exponent, int64_t offset, int64_t *value, bool *whole_number) {
    Place end = behind_number(p);
    if (!end) return NULL;
    bool negative = *p == '-';
    if (negative) p++;
    uint64_t digits = 0;
    uint32_t count = 0;
    bool fraction = false;
    for (; p < end; p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        if (!is_digit(*p)) break;
        digits = digits * 10 + (uint64_t)(*p - '0');
        count += count || digits;  // leading zeros do not count
        exponent -= fraction;
    }
    if (count > MOST_DIGITS) return NULL;
    if (p < end) {  // at the e of an exponent
        bool smaller = p[1] == '-';
        int32_t shift = 0;
        for (p += p[1] == '-' || p[1] == '+' ? 2 : 1; p < end && shift < 1000; p++) shift = shift * 10 + (*p - '0');
        exponent += smaller ? -shift : shift;
    }
    if (exponent < -LARGEST_POWER || exponent > LARGEST_POWER) {
        if (digits) return NULL;
        exponent = 0;
    }
    uint64_t whole, half = 0;  // 0: below a half, 1: a half, 2: above it
    *whole_number = true;
    if (exponent < 0) {
        uint64_t unit = POWERS[-exponent], rest = digits % unit;
        whole = digits / unit;
        *whole_number = !rest;
        half = (rest * 2 == unit) + 2 * (rest * 2 > unit);
    } else {
        if (digits > INT64_MAX / POWERS[exponent]) return NULL;
        whole = digits * POWERS[exponent];
    }
    whole += half == 2 || (half == 1 && ((whole ^ (uint64_t)offset) & 1));
    if (whole > INT64_MAX) return NULL;
    return __builtin_add_overflow(negative ? -(int64_t)whole : (int64_t)whole, offset, value) ? NULL : end;
}

// Whether a text is an integer that fits.
static bool is_integer(Text text, int64_t *value) {
    Place p = text.at, end = p + text.size;
    bool negative = p < end && *p == '-';
    if (negative) p++;
    if (p == end || end - p > MOST_DIGITS) return false;
    uint64_t number = 0;
    for (; p < end; p++) {
        if (!is_digit(*p)) return false;
        number = number * 10 + (uint64_t)(*p - '0');
    }
    if (number > (uint64_t)INT64_MAX + negative) return false;
    *value = (int64_t)(negative ? 0 - number : number);
    return true;
}

// A value that is a whole number, be it quoted, or written with a point or an exponent.
static bool is_whole_number(Text json, int64_t *value) {
    if (json.size > 1 && *json.at == '"') json = (Text){json.at + 1, json.size - 2};
    bool whole;
    return is_integer(json, value)
        || (behind_decimal(json.at, 0, 0, value, &whole) == json.at + json.size && whole);
}

static bool is_number(Text json) {
    if (json.size > 1 && *json.at == '"') json = (Text){json.at + 1, json.size - 2};
    return behind_number(json.at) == json.at + json.size;
}

// The comma or the bracket behind an item of an array, in JSON without space that is known to be whole.
static Place behind_item(Place p) {
    for (uint32_t depth = 0;; p++) {
        if (*p == '"') {
            for (p++; *p != '"'; p++) p += *p == '\\';
        } else if (*p == '[' || *p == '{') {
            depth++;
        } else if (*p == ']' || *p == '}') {
            if (!depth--) return p;
        } else if (*p == ',' && !depth) {
            return p;
        }
    }
}

enum { THREE_ITEMS = 3 };

// Whether an array is of three whole numbers of 32 bits. Of its first three items, those that are such numbers
// get their values, and all others INT64_MIN.
static bool is_three(Text json, int64_t *values) {
    for (uint32_t i = 0; i < THREE_ITEMS; i++) values[i] = INT64_MIN;
    if (json.size == 2) return false;
    uint32_t count = 0, fit = 0;
    for (Place p = json.at; *p != ']'; count++) {
        Place item = p + 1;
        int64_t value;
        p = behind_item(item);
        if (!is_whole_number((Text){item, (uint32_t)(p - item)}, &value) || value != (int32_t)value) continue;
        fit++;
        if (count < THREE_ITEMS) values[count] = value;
    }
    return count == THREE_ITEMS && fit == THREE_ITEMS;
}
