// cuBLAS' codes, as NVIDIA's documentation of the API has them.
#pragma once

#include <cuda.h>

#define CUBLAS_EXPORT extern "C" __attribute__((visibility("default")))

namespace cublas {

enum Status : int {
    kSuccess = 0,
    kNotInitialized = 1,
    kAllocFailed = 3,
    kInvalidValue = 7,
    kArchMismatch = 8,
    kMappingError = 11,
    kExecutionFailed = 13,
    kInternalError = 14,
    kNotSupported = 15,
};

enum PointerMode : int { kHost = 0, kDevice = 1 };

struct Handle {
    CUstream stream = nullptr;
    PointerMode pointers = kHost;
    int math = 0;
    int atomics = 0;
};

}  // namespace cublas
