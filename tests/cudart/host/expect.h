// A host program's checks: each that fails is a line; `failures` is the program's exit status.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>

extern "C" {
#include "extra.h"
}

inline int failures = 0;

#define EXPECT(condition)                                               \
    do {                                                                \
        if (!(condition)) {                                             \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            ++failures;                                                 \
        }                                                               \
    } while (false)

#define EXPECT_CODE(call, wanted)                                                                      \
    do {                                                                                               \
        const cudaError_t got = (call);                                                                \
        if (got != (wanted)) {                                                                         \
            std::printf("%s:%d: %s is %s, not %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(got), \
                        #wanted);                                                                      \
            ++failures;                                                                                \
        }                                                                                              \
    } while (false)

#define EXPECT_OK(call) EXPECT_CODE(call, cudaSuccess)
