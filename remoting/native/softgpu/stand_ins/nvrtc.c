/* A stand-in for libnvrtc, for processes on a software GPU: NVIDIA's own compiles, and all that it answers is
 * handed on, but for machine code. Where a program was compiled to that (-arch=sm_75), its PTX is given in
 * the form that the software GPU loads as a cubin (softgpu/driver/image.h). NVIDIA's has both, whatever it
 * was asked for.
 *
 * It is preloaded as the stand-in for nvJitLink is, and under the same rules. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "container.h"
#include "original.h"
#include "text.h"

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INTERNAL_ERROR = 11 };

typedef struct _nvrtcProgram* nvrtcProgram;
typedef intptr_t function(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);
typedef int size_function(nvrtcProgram, size_t*);
typedef int bytes_function(nvrtcProgram, char*);

/* Handed on as it is. No function of NVRTC's takes more than six arguments, each a number or a pointer: they
 * are in registers, and those that one does not take mean nothing to it. */
#define PASS(name)                                                                                 \
    EXPORT intptr_t name(intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f) { \
        function* const call = (function*)needed_function(#name);                                  \
        return call ? call(a, b, c, d, e, f) : INTERNAL_ERROR;                                     \
    }

PASS(nvrtcVersion)
PASS(nvrtcGetNumSupportedArchs)
PASS(nvrtcGetSupportedArchs)
PASS(nvrtcCreateProgram)
PASS(nvrtcDestroyProgram)
PASS(nvrtcCompileProgram)
PASS(nvrtcGetPTXSize)
PASS(nvrtcGetPTX)
PASS(nvrtcGetLTOIRSize)
PASS(nvrtcGetLTOIR)
PASS(nvrtcGetOptiXIRSize)
PASS(nvrtcGetOptiXIR)
PASS(nvrtcGetProgramLogSize)
PASS(nvrtcGetProgramLog)
PASS(nvrtcAddNameExpression)
PASS(nvrtcGetLoweredName)
PASS(nvrtcGetPCHHeapSize)
PASS(nvrtcSetPCHHeapSize)
PASS(nvrtcGetPCHCreateStatus)
PASS(nvrtcGetPCHHeapSizeRequired)
PASS(nvrtcSetFlowCallback)
PASS(__nvrtcCPEx)
#if MAJOR == 12
PASS(nvrtcGetNVVMSize)
PASS(nvrtcGetNVVM)
#else
PASS(nvrtcGetTileIRSize)
PASS(nvrtcGetTileIR)
PASS(nvrtcInstallBundledHeaders)
PASS(nvrtcGetBundledHeadersInfo)
PASS(nvrtcRemoveBundledHeaders)
PASS(__nvrtcNvvmHandle)
#endif

EXPORT const char* nvrtcGetErrorString(int result) {
    const char* (*const call)(int) = needed_function("nvrtcGetErrorString");
    return call ? call(result) : kOriginalMissing;
}

/* The PTX of a program that has machine code, or nothing. */
static int ptx_of(nvrtcProgram program, struct text* container) {
    size_function* const size_of = (size_function*)needed_function("nvrtcGetPTXSize");
    bytes_function* const copy = (bytes_function*)needed_function("nvrtcGetPTX");
    size_t size = 0;
    if (!size_of || !copy) return INTERNAL_ERROR;
    int result = size_of(program, &size);
    if (result != SUCCESS || size <= 1) return result;
    char* const ptx = malloc(size);
    if (!ptx) return OUT_OF_MEMORY;
    result = copy(program, ptx);
    if (result == SUCCESS) add_to_container(container, ptx, size, "NVRTC");
    free(ptx);
    return container->failed ? OUT_OF_MEMORY : result;
}

EXPORT int nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
    size_function* const call = (size_function*)needed_function("nvrtcGetCUBINSize");
    struct text container = {0};
    if (!call) return INTERNAL_ERROR;
    int result = call(program, size);
    if (result != SUCCESS || *size == 0) return result; /* compiled to PTX or LTO IR alone */
    result = ptx_of(program, &container);
    if (container.length > 0) *size = container.length + 1;
    text_free(&container);
    return result;
}

EXPORT int nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
    bytes_function* const call = (bytes_function*)needed_function("nvrtcGetCUBIN");
    struct text container = {0};
    size_t size = 0;
    int result = nvrtcGetCUBINSize(program, &size);
    if (result != SUCCESS) return result;
    if (size > 0 && cubin) result = ptx_of(program, &container);
    if (result == SUCCESS && container.length > 0) {
        memcpy(cubin, text_string(&container), container.length + 1);
    } else if (result == SUCCESS) {
        result = call ? call(program, cubin) : INTERNAL_ERROR;
    }
    text_free(&container);
    return result;
}
