// The whole parser as one translation unit: compiled as several, even with -flto, it takes 3 % longer.

#include "platform_wasm.c"

#include "memory.c"

#include "json.c"

#include "decimal.c"

#include "arguments.c"

#include "records.c"

#include "events.c"

#include "columns.c"

#include "exports.c"
