#include "decimal.h"

enum { MAX_DIGITS = 19, MAX_HEX_DIGITS = 16, MAX_POWER = 18 };

static const uint64_t POWERS[MAX_POWER + 1] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u, 10000000000u, 100000000000u,
    1000000000000u, 10000000000000u, 100000000000000u, 1000000000000000u, 10000000000000000u, 100000000000000000u,
    1000000000000000000u,
};

// Reads digits, and adds them behind those of `*number`, which wraps around where they are more than 19.
static inline Cursor read_digits(Cursor cursor, uint64_t *number) {
    for (;;) {
        uint64_t eight;  // their first digit is in the lowest byte
        __builtin_memcpy(&eight, cursor, sizeof eight);
        uint64_t carries = eight + 0x0606060606060606u;  // of bytes beyond '9'
        if (((eight & 0xf0f0f0f0f0f0f0f0u) | (carries & 0xf0f0f0f0f0f0f0f0u) >> 4) != 0x3333333333333333u) break;
        eight -= 0x3030303030303030u;
        eight = eight * 10 + (eight >> 8);  // pairs, in every other byte
        uint64_t low = (eight & 0x000000ff000000ffu) * (100u + (1000000ull << 32));
        uint64_t high = (eight >> 16 & 0x000000ff000000ffu) * (1u + (10000ull << 32));
        *number = *number * 100000000u + ((low + high) >> 32);
        cursor += sizeof eight;
    }
    for (; is_digit(*cursor); cursor++) *number = *number * 10 + (uint64_t)(*cursor - '0');
    return cursor;
}

// Parses a number that is a whole one when its point is moved `exponent` digits to the right, as nearly all times are.
// Returns NULL for any other one, and for one that may not be a valid number.
static inline Cursor parse_short_decimal(Cursor cursor, int32_t exponent, int64_t offset, int64_t *value) {
    Cursor start = cursor;
    uint64_t number = 0;
    cursor = read_digits(cursor, &number);
    ptrdiff_t count = cursor - start;
    if (!count || (count > 1 && *start == '0')) return NULL;
    if (*cursor == '.') {
        Cursor fraction = cursor + 1;
        cursor = read_digits(fraction, &number);
        if (cursor == fraction) return NULL;
        count += cursor - fraction;
        exponent -= (int32_t)(cursor - fraction);
    }
    if (exponent < 0 || count + exponent > MAX_DIGITS || (*cursor | 0x20) == 'e') return NULL;
    for (; exponent; exponent--) number *= 10;
    return number > INT64_MAX || __builtin_add_overflow((int64_t)number, offset, value) ? NULL : cursor;
}

Cursor parse_decimal(Cursor cursor, int32_t exponent, int64_t offset, int64_t *value, bool *is_whole) {
    Cursor end = parse_short_decimal(cursor, exponent, offset, value);
    if (end) {
        *is_whole = true;
        return end;
    }
    end = skip_number(cursor);
    if (!end) return NULL;
    bool negative = *cursor == '-';
    if (negative) cursor++;
    uint64_t digits = 0;
    uint32_t count = 0;
    bool fraction = false;
    for (; cursor < end; cursor++) {
        if (*cursor == '.') {
            fraction = true;
            continue;
        }
        if (!is_digit(*cursor)) break;
        digits = digits * 10 + (uint64_t)(*cursor - '0');
        count += count || digits;  // leading zeros do not count
        exponent -= fraction;
    }
    if (count > MAX_DIGITS) return NULL;
    if (cursor < end) {  // at the e of an exponent
        bool smaller = cursor[1] == '-';
        int32_t shift = 0;
        cursor += cursor[1] == '-' || cursor[1] == '+' ? 2 : 1;
        for (; cursor < end && shift < 1000; cursor++) shift = shift * 10 + (*cursor - '0');
        exponent += smaller ? -shift : shift;
    }
    if (exponent < -MAX_POWER || exponent > MAX_POWER) {
        if (digits) return NULL;
        exponent = 0;
    }
    uint64_t whole, half = 0;  // 0: below a half, 1: a half, 2: above it
    *is_whole = true;
    if (exponent < 0) {
        uint64_t unit = POWERS[-exponent], rest = digits % unit;
        whole = digits / unit;
        *is_whole = !rest;
        half = (rest * 2 == unit) + 2 * (rest * 2 > unit);
    } else {
        if (digits > INT64_MAX / POWERS[exponent]) return NULL;
        whole = digits * POWERS[exponent];
    }
    whole += half == 2 || (half == 1 && ((whole ^ (uint64_t)offset) & 1));
    if (whole > INT64_MAX) return NULL;
    return __builtin_add_overflow(negative ? -(int64_t)whole : (int64_t)whole, offset, value) ? NULL : end;
}

bool parse_integer(Text text, int64_t *value) {
    Cursor cursor = text.start, end = cursor + text.size;
    bool negative = cursor < end && *cursor == '-';
    if (negative) cursor++;
    if (cursor == end || end - cursor > MAX_DIGITS) return false;
    uint64_t number = 0;
    for (; cursor < end; cursor++) {
        if (!is_digit(*cursor)) return false;
        number = number * 10 + (uint64_t)(*cursor - '0');
    }
    if (number > (uint64_t)INT64_MAX + negative) return false;
    *value = (int64_t)(negative ? 0 - number : number);
    return true;
}

static Text without_quotes(Text json) {
    return json.size > 1 && *json.start == '"' ? (Text){json.start + 1, json.size - 2} : json;
}

// Whole numbers of 64 bits are also written with zeros behind a point, which are more digits than parse_decimal() takes.
static Text without_zero_fraction(Text json) {
    Cursor end = json.start + json.size;
    while (end > json.start && end[-1] == '0') end--;
    if (end == json.start + json.size || end <= json.start + 1 || end[-1] != '.') return json;
    return (Text){json.start, (uint32_t)(end - 1 - json.start)};
}

// Handles are texts with hexadecimal digits, such as the context of an XPU.
static bool parse_hex(Text text, int64_t *value) {
    Cursor cursor = text.start, end = cursor + text.size;
    if (text.size < 3 || text.size > 2 + MAX_HEX_DIGITS || cursor[0] != '0' || cursor[1] != 'x') return false;
    uint64_t number = 0;
    for (cursor += 2; cursor < end; cursor++) {
        uint8_t letter = (uint8_t)((*cursor | 0x20) - 'a');
        if (!is_digit(*cursor) && letter > 5) return false;
        number = number << 4 | (is_digit(*cursor) ? (uint64_t)(*cursor - '0') : 10u + letter);
    }
    if (number > INT64_MAX) return false;
    *value = (int64_t)number;
    return true;
}

bool parse_whole_number(Text json, int64_t *value) {
    bool is_quoted = json.size > 1 && *json.start == '"';
    json = without_quotes(json);
    if (is_quoted && parse_hex(json, value)) return true;
    bool is_whole;
    return parse_integer(without_zero_fraction(json), value)
        || (parse_decimal(json.start, 0, 0, value, &is_whole) == json.start + json.size && is_whole);
}

bool is_number(Text json) {
    json = without_quotes(json);
    return skip_number(json.start) == json.start + json.size;
}

// Skips an item of an array, in valid JSON without space: returns the comma or the bracket behind it.
static Cursor skip_item(Cursor cursor) {
    for (uint32_t depth = 0;; cursor++) {
        if (*cursor == '"') {
            for (cursor++; *cursor != '"'; cursor++) cursor += *cursor == '\\';
        } else if (*cursor == '[' || *cursor == '{') {
            depth++;
        } else if (*cursor == ']' || *cursor == '}') {
            if (!depth--) return cursor;
        } else if (*cursor == ',' && !depth) {
            return cursor;
        }
    }
}

bool parse_int32_list(Text json, int64_t *values) {
    for (uint32_t i = 0; i < LIST_ITEMS; i++) values[i] = NO_ITEM;
    if (json.size == 2) return false;
    uint32_t count = 0, fit = 0;
    for (Cursor cursor = json.start; *cursor != ']'; count++) {
        Cursor item = cursor + 1;
        int64_t value;
        cursor = skip_item(item);
        if (!parse_whole_number((Text){item, (uint32_t)(cursor - item)}, &value) || value != (int32_t)value) continue;
        fit++;
        if (count < LIST_ITEMS) values[count] = value;
    }
    return count == LIST_ITEMS && fit == LIST_ITEMS;
}
