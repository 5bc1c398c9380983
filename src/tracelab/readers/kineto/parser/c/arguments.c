#include "arguments.h"

struct Arguments arguments;
Plan plans[MAX_KINDS];

bool add_known_argument(Text key, enum ArgumentType type) {
    if (arguments.count == MAX_ARGUMENTS) return false;
    uint32_t slot = hash_key(key);
    while (arguments.slots[slot % KEY_SLOTS]) slot++;
    arguments.keys[arguments.count] = key;
    arguments.types[arguments.count] = (uint8_t)type;
    arguments.slots[slot % KEY_SLOTS] = (uint8_t)++arguments.count;
    return true;
}
