// Decimal numbers as integers, exact to the last digit.

#pragma once

#include "json.h"

// Parses a decimal times a power of ten, plus an offset, as an integer: half to even, like Python's `round` of a
// Decimal. Returns NULL also where it does not fit, or has more digits than 64 bits hold exactly. `*is_whole` becomes
// whether nothing was rounded.
Cursor parse_decimal(Cursor cursor, int32_t exponent, int64_t offset, int64_t *value, bool *is_whole);

// Parses a text that is only an integer of 64 bits.
bool parse_integer(Text text, int64_t *value);

// Parses a value that is a whole number, also a quoted one, or one with a point or an exponent.
bool parse_whole_number(Text json, int64_t *value);

// Whether a value is a number, be it quoted.
bool is_number(Text json);

// Parses an array; returns whether it has LIST_ITEMS items, all whole numbers of 32 bits. Of its first items, those
// that are such numbers become `values`, and all others NO_ITEM.
bool parse_int32_list(Text json, int64_t *values);
