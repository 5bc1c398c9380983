// Decimal numbers as whole nanoseconds, exact to the last digit.

#pragma once

#include "json.h"

enum { MOST_DIGITS = 19, LARGEST_POWER = 18 };

static const uint64_t POWERS[LARGEST_POWER + 1] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u, 10000000000u, 100000000000u,
    1000000000000u, 10000000000000u, 100000000000000u, 1000000000000000u, 10000000000000000u, 100000000000000000u,
    1000000000000000000u,
};

// A decimal times a power of ten, plus an offset, as an integer: half to even, as Python's `round` of a Decimal.
// NULL also where it does not fit, or has more digits than can be held exactly here.
static Place behind_time(Place p, int32_t exponent, int64_t offset, int64_t *time) {
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
        count += digits > 0;
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
    if (exponent < 0) {
        uint64_t unit = POWERS[-exponent], rest = digits % unit;
        whole = digits / unit;
        half = (rest * 2 == unit) + 2 * (rest * 2 > unit);
    } else {
        if (digits > INT64_MAX / POWERS[exponent]) return NULL;
        whole = digits * POWERS[exponent];
    }
    whole += half == 2 || (half == 1 && ((whole ^ (uint64_t)offset) & 1));
    if (whole > INT64_MAX) return NULL;
    return __builtin_add_overflow(negative ? -(int64_t)whole : (int64_t)whole, offset, time) ? NULL : end;
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
    *value = negative ? -(int64_t)number : (int64_t)number;
    return number <= INT64_MAX;
}
