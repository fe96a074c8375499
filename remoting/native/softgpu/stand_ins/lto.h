/* The LTO IR of a link: NVIDIA's own nvJitLink makes PTX of it, which needs no GPU. It keeps what kernels of
 * the same IR use; functions that only PTX inputs call may be gone. */
#pragma once

#include "nvjitlink.h"
#include "text.h"

struct lto {
    struct text options; /* each ended by NUL */
    uint32_t option_count;
    bool enabled;         /* the program asked for it: -lto */
    nvJitLinkHandle link; /* NVIDIA's; null until there is LTO IR */
    size_t told;          /* how much of its error log was handed on */
};

void lto_option(struct lto* lto, const char* option);

/* Whether an input is for it: LTO IR, or a fatbin, object or archive that has some while it is enabled. */
bool lto_takes(const struct lto* lto, nvJitLinkInputType type, const void* data, size_t size);

/* The answers are NVIDIA's, and its words go to `errors`. */
nvJitLinkResult lto_add(struct lto* lto, struct text* errors, nvJitLinkInputType type, const void* data,
                        size_t size, const char* name);

/* Appends the PTX to `container`, if there was any IR. */
nvJitLinkResult lto_complete(struct lto* lto, struct text* container, struct text* errors, struct text* info);

void lto_free(struct lto* lto);
