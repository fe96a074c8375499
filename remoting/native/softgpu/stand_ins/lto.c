#include "lto.h"

#include <stdlib.h>
#include <string.h>

#include "container.h"
#include "inputs.h"
#include "original.h"

typedef nvJitLinkResult create_function(nvJitLinkHandle*, uint32_t, const char* const*);
typedef nvJitLinkResult add_function(nvJitLinkHandle, nvJitLinkInputType, const void*, size_t, const char*);
typedef nvJitLinkResult complete_function(nvJitLinkHandle);
typedef nvJitLinkResult destroy_function(nvJitLinkHandle*);
typedef nvJitLinkResult size_function(nvJitLinkHandle, size_t*);
typedef nvJitLinkResult text_function(nvJitLinkHandle, char*);

static const unsigned char kLtoIr[] = {0xed, 0x43, 0x4e, 0x7f};
static const char kPtx[] = "-ptx";

void lto_option(struct lto* lto, const char* option) {
    if (strcmp(option, "-lto") == 0) lto->enabled = true;
    if (strcmp(option, kPtx) == 0) return; /* it is added for the link */
    text_append(&lto->options, option, strlen(option) + 1);
    ++lto->option_count;
}

bool lto_takes(const struct lto* lto, nvJitLinkInputType type, const void* data, size_t size) {
    if (type == NVJITLINK_INPUT_LTOIR) return true;
    if (type == NVJITLINK_INPUT_ANY && data && size >= sizeof kLtoIr &&
        memcmp(data, kLtoIr, sizeof kLtoIr) == 0) {
        return true;
    }
    if (type == NVJITLINK_INPUT_PTX || type == NVJITLINK_INPUT_CUBIN) return false;
    return lto->enabled && data && has_lto_ir(data, size);
}

/* Appends a text of NVIDIA's link after its first `from` bytes; returns its length. */
static size_t append_theirs(struct text* to, nvJitLinkHandle link, const char* what, size_t from) {
    char name[64] = "nvJitLinkGet";
    text_function* const get = (text_function*)needed_function(strcat(name, what));
    size_function* const size_of = (size_function*)needed_function(strcat(name, "Size"));
    size_t size = 0;
    if (!get || !size_of || size_of(link, &size) != NVJITLINK_SUCCESS || size == 0) return from;
    char* const text = calloc(1, size + 1);
    size_t length = from;
    if (text && get(link, text) == NVJITLINK_SUCCESS) {
        length = strlen(text);
        if (length > from) text_append(to, text + from, length - from);
    }
    free(text);
    return length;
}

static nvJitLinkResult create(struct lto* lto, struct text* errors) {
    create_function* const call = (create_function*)needed_function("nvJitLinkCreate");
    if (!call) {
        text_add(errors, kOriginalMissing);
        text_add(errors, "\n");
        return NVJITLINK_ERROR_INTERNAL;
    }
    const char** const options = calloc(lto->option_count + 1, sizeof *options);
    if (!options || lto->options.failed) {
        free(options);
        return NVJITLINK_ERROR_INTERNAL;
    }
    uint32_t count = 0;
    for (const char* at = text_string(&lto->options); count < lto->option_count; at += strlen(at) + 1) {
        options[count++] = at;
    }
    if (lto->enabled) options[count++] = kPtx;
    const nvJitLinkResult result = call(&lto->link, count, options);
    free(options);
    if (result != NVJITLINK_SUCCESS) lto->link = NULL;
    return result;
}

static nvJitLinkResult told(struct lto* lto, struct text* errors, nvJitLinkResult result) {
    if (result != NVJITLINK_SUCCESS) lto->told = append_theirs(errors, lto->link, "ErrorLog", lto->told);
    return errors->failed ? NVJITLINK_ERROR_INTERNAL : result;
}

nvJitLinkResult lto_add(struct lto* lto, struct text* errors, nvJitLinkInputType type, const void* data,
                        size_t size, const char* name) {
    if (!lto->link) {
        const nvJitLinkResult result = create(lto, errors);
        if (result != NVJITLINK_SUCCESS) return result;
    }
    add_function* const call = (add_function*)needed_function("nvJitLinkAddData");
    return call ? told(lto, errors, call(lto->link, type, data, size, name)) : NVJITLINK_ERROR_INTERNAL;
}

nvJitLinkResult lto_complete(struct lto* lto, struct text* container, struct text* errors,
                             struct text* info) {
    struct text ptx = {0};
    if (!lto->link) return NVJITLINK_SUCCESS;
    complete_function* const call = (complete_function*)needed_function("nvJitLinkComplete");
    const nvJitLinkResult result = call ? told(lto, errors, call(lto->link)) : NVJITLINK_ERROR_INTERNAL;
    append_theirs(info, lto->link, "InfoLog", 0);
    if (result != NVJITLINK_SUCCESS || !lto->enabled) return result;
    append_theirs(&ptx, lto->link, "LinkedPtx", 0);
    if (ptx.length > 0) add_to_container(container, text_string(&ptx), ptx.length, "LTO IR");
    const bool failed = ptx.length == 0 || ptx.failed;
    text_free(&ptx);
    return failed ? NVJITLINK_ERROR_INTERNAL : NVJITLINK_SUCCESS;
}

void lto_free(struct lto* lto) {
    destroy_function* const call = lto->link ? (destroy_function*)needed_function("nvJitLinkDestroy") : NULL;
    if (call) call(&lto->link);
    text_free(&lto->options);
}
