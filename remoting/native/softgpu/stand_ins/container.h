/* The link container that the software GPU loads as a cubin: see softgpu/driver/image.h. */
#pragma once

#include "text.h"

/* Starts each PTX text of a container. */
extern const char kLinkInput[28];

/* Appends PTX, up to its NUL, after the line that names it. A container is added as it is. */
void add_to_container(struct text* container, const char* ptx, size_t size, const char* name);

/* Ends a container that was linked under a limit of registers. */
void limit_registers(struct text* container, const char* digits);
