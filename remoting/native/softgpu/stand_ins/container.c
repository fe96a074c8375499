#include "container.h"

#include <string.h>

const char kLinkInput[] = "// gpu-kernels link input: ";

static const char kMaxRegisters[] = ".pragma \"gpu-kernels max registers ";

void add_to_container(struct text* container, const char* ptx, size_t size, const char* name) {
    const size_t length = sizeof kLinkInput - 1;
    if (size < length || memcmp(ptx, kLinkInput, length) != 0) {
        text_add(container, kLinkInput);
        for (const char* at = name && *name ? name : "PTX"; *at; ++at) {
            text_append(container, *at == '\n' || *at == '\r' ? " " : at, 1);
        }
        text_add(container, "\n");
    }
    text_append(container, ptx, strnlen(ptx, size));
    text_add(container, "\n");
}

void limit_registers(struct text* container, const char* digits) {
    text_add(container, kMaxRegisters);
    text_add(container, digits);
    text_add(container, "\";\n");
}
