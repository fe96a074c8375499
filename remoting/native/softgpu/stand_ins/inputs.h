/* What a linker is given, and the PTX in it. */
#pragma once

#include "nvjitlink.h"
#include "text.h"

/* Appends the PTX of one input to `container`, after the line that names it. On refusal says why in `errors`.
 */
nvJitLinkResult add_input(struct text* container, struct text* errors, nvJitLinkInputType type,
                          const void* data, size_t size, const char* name);

/* Whether a fatbin, or a host object or archive with fatbins, holds LTO IR. */
bool has_lto_ir(const void* data, size_t size);
