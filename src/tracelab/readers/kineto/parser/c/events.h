// Events out of JSON.

#pragma once

#include "records.h"

// Parses the event whose opening brace is at the cursor. One that is valid JSON, but not one to be read here, becomes
// an irregular event.
Cursor parse_event(Cursor cursor);
