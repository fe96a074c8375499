/* A stand-in for libnvJitLink's public interface, for processes on a software GPU: it links PTX into the link
 * container that the software GPU loads (softgpu/driver/image.h), and makes no machine code.
 *
 * It is preloaded into every process of a notebook, shells included: it needs only the C library, does
 * nothing when it is loaded, and is never needed by anything but a program that links GPU code.
 *
 * LTO IR is linked by NVIDIA's own nvJitLink (lto.h). The version is that one's; without it, 12.2: that says
 * truly that there is no LTO IR to be handed over, because numba takes 12.3, with which nvJitLinkVersion
 * came, as the sign that it may. */
#include "nvjitlink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "container.h"
#include "inputs.h"
#include "lto.h"
#include "original.h"
#include "symbols.h"
#include "text.h"

#define EXPORT __attribute__((visibility("default")))

enum { MAX_FILE = 64 << 20 };

static const char kNotKept[] =
    "on a software GPU a function of LTO IR is kept if LTO IR uses it: give what calls it as LTO IR, or it "
    "as PTX\n";
static const char kRegistersOption[] = "-maxrregcount=";

struct nvJitLink {
    struct text container;
    struct text errors;
    struct text info;
    struct lto lto;
    char max_registers[4]; /* digits; empty for no limit */
    bool complete;
};

EXPORT nvJitLinkResult nvJitLinkVersion(unsigned int* major, unsigned int* minor) {
    nvJitLinkResult (*const theirs)(unsigned int*, unsigned int*) = original_function("nvJitLinkVersion");
    if (theirs) return theirs(major, minor);
    if (!major || !minor) return NVJITLINK_ERROR_INVALID_INPUT;
    *major = 12;
    *minor = 2;
    return NVJITLINK_SUCCESS;
}

EXPORT nvJitLinkResult nvJitLinkCreate(nvJitLinkHandle* handle, uint32_t numOptions,
                                       const char* const* options) {
    bool has_arch = false;
    const char* registers = "";
    if (!handle || (numOptions > 0 && !options)) return NVJITLINK_ERROR_INVALID_INPUT;
    for (uint32_t i = 0; i < numOptions; ++i) {
        if (!options[i] || options[i][0] != '-') return NVJITLINK_ERROR_UNRECOGNIZED_OPTION;
        if (strncmp(options[i], "-arch=", 6) == 0) has_arch = true;
        if (strncmp(options[i], kRegistersOption, sizeof kRegistersOption - 1) == 0) {
            registers = options[i] + sizeof kRegistersOption - 1;
            const size_t digits = strspn(registers, "0123456789");
            if (digits == 0 || digits > 3 || registers[digits]) return NVJITLINK_ERROR_UNRECOGNIZED_OPTION;
        }
    }
    if (!has_arch) return NVJITLINK_ERROR_MISSING_ARCH;
    *handle = calloc(1, sizeof **handle);
    if (!*handle) return NVJITLINK_ERROR_INTERNAL;
    strcpy((*handle)->max_registers, registers);
    for (uint32_t i = 0; i < numOptions; ++i) lto_option(&(*handle)->lto, options[i]);
    return NVJITLINK_SUCCESS;
}

EXPORT nvJitLinkResult nvJitLinkDestroy(nvJitLinkHandle* handle) {
    if (!handle || !*handle) return NVJITLINK_ERROR_INVALID_INPUT;
    text_free(&(*handle)->container);
    text_free(&(*handle)->errors);
    text_free(&(*handle)->info);
    lto_free(&(*handle)->lto);
    free(*handle);
    *handle = NULL;
    return NVJITLINK_SUCCESS;
}

EXPORT nvJitLinkResult nvJitLinkAddData(nvJitLinkHandle handle, nvJitLinkInputType inputType,
                                        const void* data, size_t size, const char* name) {
    if (!handle || handle->complete) return NVJITLINK_ERROR_INVALID_INPUT;
    if (lto_takes(&handle->lto, inputType, data, size)) {
        return lto_add(&handle->lto, &handle->errors, inputType, data, size, name);
    }
    const nvJitLinkResult result =
        add_input(&handle->container, &handle->errors, inputType, data, size, name);
    return handle->container.failed ? NVJITLINK_ERROR_INTERNAL : result;
}

EXPORT nvJitLinkResult nvJitLinkAddFile(nvJitLinkHandle handle, nvJitLinkInputType inputType,
                                        const char* fileName) {
    struct text content = {0};
    char block[65536];
    size_t got;
    if (!handle || !fileName) return NVJITLINK_ERROR_INVALID_INPUT;
    FILE* file = fopen(fileName, "rbe");
    if (!file) {
        text_add(&handle->errors, fileName);
        text_add(&handle->errors, ": cannot be opened\n");
        return NVJITLINK_ERROR_INVALID_INPUT;
    }
    while (content.length <= MAX_FILE && (got = fread(block, 1, sizeof block, file)) > 0) {
        text_append(&content, block, got);
    }
    fclose(file);
    nvJitLinkResult result = NVJITLINK_ERROR_INTERNAL;
    if (content.length > MAX_FILE) {
        text_add(&handle->errors, fileName);
        text_add(&handle->errors, ": is larger than 64 MiB\n");
    } else if (!content.failed) {
        result = nvJitLinkAddData(handle, inputType, content.bytes, content.length, fileName);
    }
    text_free(&content);
    return result;
}

EXPORT nvJitLinkResult nvJitLinkComplete(nvJitLinkHandle handle) {
    if (!handle) return NVJITLINK_ERROR_INVALID_INPUT;
    if (handle->complete) return NVJITLINK_SUCCESS;
    const nvJitLinkResult result =
        lto_complete(&handle->lto, &handle->container, &handle->errors, &handle->info);
    if (result != NVJITLINK_SUCCESS) return result;
    if (handle->container.length == 0) {
        text_add(&handle->errors, "nothing to link\n");
        return NVJITLINK_ERROR_FINALIZE;
    }
    const size_t before = handle->errors.length;
    find_undefined(text_string(&handle->container), &handle->errors);
    if (handle->errors.length != before) {
        if (handle->lto.link) text_add(&handle->errors, kNotKept);
        return NVJITLINK_ERROR_FINALIZE;
    }
    if (*handle->max_registers) limit_registers(&handle->container, handle->max_registers);
    if (handle->container.failed) return NVJITLINK_ERROR_INTERNAL;
    handle->complete = true;
    return NVJITLINK_SUCCESS;
}

/* Sizes count the NUL that ends each text. */
static nvJitLinkResult size_of(const struct text* text, size_t* size) {
    if (!text || !size) return NVJITLINK_ERROR_INVALID_INPUT;
    *size = text->length + 1;
    return NVJITLINK_SUCCESS;
}

static nvJitLinkResult copy_of(const struct text* text, void* to) {
    if (!text || !to) return NVJITLINK_ERROR_INVALID_INPUT;
    memcpy(to, text_string(text), text->length + 1);
    return NVJITLINK_SUCCESS;
}

/* Null until the link is complete. */
static const struct text* linked(nvJitLinkHandle handle) {
    return handle && handle->complete ? &handle->container : NULL;
}

static const struct text* errors(nvJitLinkHandle handle) {
    return handle ? &handle->errors : NULL;
}

static const struct text* info(nvJitLinkHandle handle) {
    return handle ? &handle->info : NULL;
}

EXPORT nvJitLinkResult nvJitLinkGetLinkedCubinSize(nvJitLinkHandle handle, size_t* size) {
    return size_of(linked(handle), size);
}

EXPORT nvJitLinkResult nvJitLinkGetLinkedCubin(nvJitLinkHandle handle, void* cubin) {
    return copy_of(linked(handle), cubin);
}

EXPORT nvJitLinkResult nvJitLinkGetLinkedPtxSize(nvJitLinkHandle handle, size_t* size) {
    return size_of(linked(handle), size);
}

EXPORT nvJitLinkResult nvJitLinkGetLinkedPtx(nvJitLinkHandle handle, char* ptx) {
    return copy_of(linked(handle), ptx);
}

EXPORT nvJitLinkResult nvJitLinkGetErrorLogSize(nvJitLinkHandle handle, size_t* size) {
    return size_of(errors(handle), size);
}

EXPORT nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle handle, char* log) {
    return copy_of(errors(handle), log);
}

EXPORT nvJitLinkResult nvJitLinkGetInfoLogSize(nvJitLinkHandle handle, size_t* size) {
    return size_of(info(handle), size);
}

EXPORT nvJitLinkResult nvJitLinkGetInfoLog(nvJitLinkHandle handle, char* log) {
    return copy_of(info(handle), log);
}

static nvJitLinkResult no_lto(nvJitLinkHandle handle) {
    if (!handle) return NVJITLINK_ERROR_INVALID_INPUT;
    text_add(&handle->errors, "what was linked is PTX, which a software GPU runs, and no LTO IR\n");
    return NVJITLINK_ERROR_INVALID_INPUT;
}

EXPORT nvJitLinkResult nvJitLinkGetLinkedLTOIRSize(nvJitLinkHandle handle, size_t* size) {
    return no_lto(handle);
}

EXPORT nvJitLinkResult nvJitLinkGetLinkedLTOIR(nvJitLinkHandle handle, void* ltoir) {
    return no_lto(handle);
}

/* Programs compiled against the header call names with the version they were compiled for, all of one
 * meaning. */
#define ALIAS(name, version) EXPORT __attribute__((alias(#name))) __typeof__(name) __##name##_##version;
#define ALIASES(version)                        \
    ALIAS(nvJitLinkCreate, version)             \
    ALIAS(nvJitLinkDestroy, version)            \
    ALIAS(nvJitLinkAddData, version)            \
    ALIAS(nvJitLinkAddFile, version)            \
    ALIAS(nvJitLinkComplete, version)           \
    ALIAS(nvJitLinkGetLinkedCubinSize, version) \
    ALIAS(nvJitLinkGetLinkedCubin, version)     \
    ALIAS(nvJitLinkGetLinkedPtxSize, version)   \
    ALIAS(nvJitLinkGetLinkedPtx, version)       \
    ALIAS(nvJitLinkGetErrorLogSize, version)    \
    ALIAS(nvJitLinkGetErrorLog, version)        \
    ALIAS(nvJitLinkGetInfoLogSize, version)     \
    ALIAS(nvJitLinkGetInfoLog, version)         \
    ALIAS(nvJitLinkGetLinkedLTOIRSize, version) \
    ALIAS(nvJitLinkGetLinkedLTOIR, version)

#if MAJOR == 13
ALIASES(13_0)
ALIASES(13_1)
ALIASES(13_2)
ALIASES(13_3)
ALIASES(13_4)
ALIASES(13_5)
ALIASES(13_6)
ALIASES(13_7)
ALIASES(13_8)
ALIASES(13_9)
#else
ALIASES(12_0)
ALIASES(12_1)
ALIASES(12_2)
ALIASES(12_3)
ALIASES(12_4)
ALIASES(12_5)
ALIASES(12_6)
ALIASES(12_7)
ALIASES(12_8)
ALIASES(12_9)
#endif
