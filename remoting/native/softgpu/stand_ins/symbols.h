/* Which functions and variables a link leaves undefined: found out when linking, as a linker does, not when
 * the first kernel is loaded. */
#pragma once

#include "text.h"

/* Appends a line to `errors` for each symbol that the PTX in `container` declares .extern and defines
 * nowhere, except what the software GPU brings itself. */
void find_undefined(const char* container, struct text* errors);
