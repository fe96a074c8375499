#include "inputs.h"

#include <ctype.h>
#include <string.h>

/* Starts each PTX text of a container; the same as in softgpu/driver/image.h. */
static const char kLinkInput[] = "// gpu-kernels link input: ";

static const unsigned char kElf[] = {0x7f, 'E', 'L', 'F'};
static const unsigned char kFatbin[] = {0x50, 0xed, 0x55, 0xba};
static const char kArchive[] = "!<arch>\n";

enum {
    ENTRY_HEADER = 64,
    FATBIN_HEADER = 16,
    PTX = 1,
    COMPRESSED = 0xa000,
    ONE_ONLY = 0x300000,
    ARCHITECTURE = 75
};

static bool starts_with(const void* data, size_t size, const void* start, size_t length) {
    return size >= length && memcmp(data, start, length) == 0;
}

static void add_text(struct text* container, const char* text, size_t size, const char* name) {
    if (!starts_with(text, size, kLinkInput, sizeof kLinkInput - 1)) {
        text_add(container, kLinkInput);
        for (const char* at = name && *name ? name : "PTX"; *at; ++at) {
            text_append(container, *at == '\n' || *at == '\r' ? " " : at, 1);
        }
        text_add(container, "\n");
    }
    text_append(container, text, strnlen(text, size));
    text_add(container, "\n");
}

static uint64_t field(const unsigned char* at, unsigned bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/* Of what suits compute capability 7.5 the newest, else of what is newer the oldest; the same rule as in
 * softgpu/driver/fatbin.cc. */
static bool is_better(uint64_t arch, uint64_t best) {
    if ((arch <= ARCHITECTURE) != (best <= ARCHITECTURE)) return arch <= ARCHITECTURE;
    return arch <= ARCHITECTURE ? arch >= best : arch < best;
}

/* The PTX of a fatbin that is taken, or null; `*compressed` says whether some was passed over for its
 * compression. See wire/fatbin.cc for the layout. */
static const char* ptx_of_fatbin(const unsigned char* fatbin, size_t size, size_t* length, bool* compressed) {
    const char* best = NULL;
    uint64_t best_arch = 0;
    if (size < FATBIN_HEADER) return NULL;
    const uint64_t header = field(fatbin + 6, 2), stored = field(fatbin + 8, 8);
    if (header < FATBIN_HEADER || header > size || stored > size - header) return NULL;
    const unsigned char* at = fatbin + header;
    for (uint64_t room = stored; room >= ENTRY_HEADER;) {
        const uint64_t entry_header = field(at + 4, 4), bytes = field(at + 8, 8), arch = field(at + 28, 4);
        if (entry_header < ENTRY_HEADER || entry_header > room || bytes > room - entry_header) return NULL;
        const uint64_t flags = field(at + 40, 8);
        if (field(at, 2) == PTX && !(flags & ONE_ONLY) && (!best || is_better(arch, best_arch))) {
            if (flags & COMPRESSED) {
                *compressed = true;
            } else {
                best = (const char*)at + entry_header;
                best_arch = arch;
                *length = bytes;
            }
        }
        at += entry_header + bytes;
        room -= entry_header + bytes;
    }
    return best;
}

static nvJitLinkResult refuse(struct text* errors, const char* name, const char* why) {
    text_add(errors, name && *name ? name : "an input");
    text_add(errors, why);
    return NVJITLINK_ERROR_INCORRECT_INPUT_TYPE;
}

static nvJitLinkResult add_fatbin(struct text* container, struct text* errors, const void* data, size_t size,
                                  const char* name) {
    size_t length = 0;
    bool compressed = false;
    const char* ptx = ptx_of_fatbin(data, size, &length, &compressed);
    if (ptx) {
        add_text(container, ptx, length, name);
        return NVJITLINK_SUCCESS;
    }
    return refuse(errors, name,
                  compressed ? ": its PTX is compressed; build it with nvcc --no-compress\n"
                             : ": it holds no PTX for any GPU, and a software GPU runs PTX only\n");
}

/* Host objects and archives: the PTX of each fatbin inside. What holds machine code only, like
 * libcudadevrt.a, adds nothing; if something of it is needed, the link finds it undefined. */
static void add_object(struct text* container, const unsigned char* data, size_t size, const char* name) {
    const unsigned char* const end = data + size;
    for (const unsigned char* at = data; (at = memchr(at, kFatbin[0], (size_t)(end - at))) != NULL; ++at) {
        size_t length = 0;
        bool compressed = false;
        if (!starts_with(at, (size_t)(end - at), kFatbin, sizeof kFatbin)) continue;
        const char* ptx = ptx_of_fatbin(at, (size_t)(end - at), &length, &compressed);
        if (ptx) add_text(container, ptx, length, name);
    }
}

static nvJitLinkInputType guess(const void* data, size_t size) {
    if (starts_with(data, size, kFatbin, sizeof kFatbin)) return NVJITLINK_INPUT_FATBIN;
    if (starts_with(data, size, kArchive, sizeof kArchive - 1)) return NVJITLINK_INPUT_LIBRARY;
    if (starts_with(data, size, kElf, sizeof kElf)) return NVJITLINK_INPUT_OBJECT;
    return NVJITLINK_INPUT_PTX;
}

nvJitLinkResult add_input(struct text* container, struct text* errors, nvJitLinkInputType type,
                          const void* data, size_t size, const char* name) {
    if (!data || size == 0) return NVJITLINK_ERROR_NULL_INPUT;
    if (type == NVJITLINK_INPUT_ANY) type = guess(data, size);
    switch (type) {
        case NVJITLINK_INPUT_PTX:
            if (!isprint(*(const unsigned char*)data) && !isspace(*(const unsigned char*)data)) {
                return refuse(errors, name, ": it is no PTX text\n");
            }
            add_text(container, data, size, name);
            return NVJITLINK_SUCCESS;
        case NVJITLINK_INPUT_CUBIN:
            if (!starts_with(data, size, kLinkInput, sizeof kLinkInput - 1)) {
                return refuse(errors, name, ": it is machine code, and a software GPU runs PTX only\n");
            }
            add_text(container, data, size, name);
            return NVJITLINK_SUCCESS;
        case NVJITLINK_INPUT_FATBIN:
            return add_fatbin(container, errors, data, size, name);
        case NVJITLINK_INPUT_OBJECT:
        case NVJITLINK_INPUT_LIBRARY:
            add_object(container, data, size, name);
            return NVJITLINK_SUCCESS;
        case NVJITLINK_INPUT_LTOIR:
            return refuse(errors, name,
                          ": it is LTO IR, and a software GPU runs PTX only; compile without link-time "
                          "optimisation (numba: lto=False)\n");
        default:
            return NVJITLINK_ERROR_INVALID_INPUT;
    }
}
