#include "inputs.h"

#include <ctype.h>
#include <string.h>

#include "container.h"

static const unsigned char kElf[] = {0x7f, 'E', 'L', 'F'};
static const unsigned char kFatbin[] = {0x50, 0xed, 0x55, 0xba};
static const char kArchive[] = "!<arch>\n";

enum {
    LTO_IR = 8,
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

/* What a fatbin holds: the PTX that is taken, or null; whether some was passed over for its compression. */
struct contents {
    const char* ptx;
    size_t length;
    uint64_t architecture;
    bool compressed;
    bool lto_ir;
};

static void look_at_entry(struct contents* contents, const unsigned char* entry, const unsigned char* data) {
    const uint64_t kind = field(entry, 2), arch = field(entry + 28, 4), flags = field(entry + 40, 8);
    if (kind == LTO_IR) contents->lto_ir = true;
    if (kind != PTX || (flags & ONE_ONLY) || (contents->ptx && !is_better(arch, contents->architecture)))
        return;
    if (flags & COMPRESSED) {
        contents->compressed = true;
        return;
    }
    contents->ptx = (const char*)data;
    contents->length = field(entry + 8, 8);
    contents->architecture = arch;
}

/* See wire/fatbin.cc for the layout. What is no whole fatbin holds nothing. */
static struct contents contents_of(const unsigned char* fatbin, size_t size) {
    static const struct contents nothing;
    struct contents contents = {0};
    if (size < FATBIN_HEADER) return nothing;
    const uint64_t header = field(fatbin + 6, 2), stored = field(fatbin + 8, 8);
    if (header < FATBIN_HEADER || header > size || stored > size - header) return nothing;
    const unsigned char* at = fatbin + header;
    for (uint64_t room = stored; room >= ENTRY_HEADER;) {
        const uint64_t entry_header = field(at + 4, 4), bytes = field(at + 8, 8);
        if (entry_header < ENTRY_HEADER || entry_header > room || bytes > room - entry_header) return nothing;
        look_at_entry(&contents, at, at + entry_header);
        at += entry_header + bytes;
        room -= entry_header + bytes;
    }
    return contents;
}

static nvJitLinkResult refuse(struct text* errors, const char* name, const char* why) {
    text_add(errors, name && *name ? name : "an input");
    text_add(errors, why);
    return NVJITLINK_ERROR_INCORRECT_INPUT_TYPE;
}

static nvJitLinkResult add_fatbin(struct text* container, struct text* errors, const void* data, size_t size,
                                  const char* name) {
    const struct contents found = contents_of(data, size);
    if (found.ptx) {
        add_to_container(container, found.ptx, found.length, name);
        return NVJITLINK_SUCCESS;
    }
    return refuse(errors, name,
                  found.compressed ? ": its PTX is compressed; build it with nvcc --no-compress\n"
                                   : ": it holds no PTX for any GPU, and a software GPU runs PTX only\n");
}

/* The next fatbin from `at` on, or null. */
static const unsigned char* next_fatbin(const unsigned char* at, const unsigned char* end) {
    while (at < end && (at = memchr(at, kFatbin[0], (size_t)(end - at))) != NULL) {
        if (starts_with(at, (size_t)(end - at), kFatbin, sizeof kFatbin)) return at;
        ++at;
    }
    return NULL;
}

/* Host objects and archives: the PTX of each fatbin inside. What holds machine code only, like
 * libcudadevrt.a, adds nothing; if something of it is needed, the link finds it undefined. */
static void add_object(struct text* container, const unsigned char* data, size_t size, const char* name) {
    const unsigned char* const end = data + size;
    for (const unsigned char* at = data; (at = next_fatbin(at, end)) != NULL; ++at) {
        const struct contents found = contents_of(at, (size_t)(end - at));
        if (found.ptx) add_to_container(container, found.ptx, found.length, name);
    }
}

bool has_lto_ir(const void* data, size_t size) {
    const unsigned char *at = data, *const end = at + size;
    for (; (at = next_fatbin(at, end)) != NULL; ++at) {
        if (contents_of(at, (size_t)(end - at)).lto_ir) return true;
    }
    return false;
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
        case NVJITLINK_INPUT_CUBIN:
            if (starts_with(data, size, kElf, sizeof kElf)) {
                return refuse(errors, name, ": it is machine code, and a software GPU runs PTX only\n");
            }
            __attribute__((fallthrough)); /* PTX stands for a cubin */
        case NVJITLINK_INPUT_PTX:
            if (!isprint(*(const unsigned char*)data) && !isspace(*(const unsigned char*)data)) {
                return refuse(errors, name, ": it is no PTX text\n");
            }
            add_to_container(container, data, size, name);
            return NVJITLINK_SUCCESS;
        case NVJITLINK_INPUT_FATBIN:
            return add_fatbin(container, errors, data, size, name);
        case NVJITLINK_INPUT_OBJECT:
        case NVJITLINK_INPUT_LIBRARY:
            add_object(container, data, size, name);
            return NVJITLINK_SUCCESS;
        default:
            return NVJITLINK_ERROR_INVALID_INPUT;
    }
}
