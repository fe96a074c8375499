// cuBLASLt's handles, which know nothing: a call brings its stream and its workspace. A handle of cuBLAS is one of cuBLASLt too.
#include <stddef.h>

#include "cublas/status.h"
#include "driver.h"
#include "handles.h"
#include "roles.h"

using namespace cublas;

namespace {

struct Handle {};

libraries::Handles<Handle>& handles() {
    static auto* const all = new libraries::Handles<Handle>;  // never destroyed: exit handlers may call
    return *all;
}

}  // namespace

// Told here, and not in the midst of work: that nothing computes.
CUBLAS_EXPORT Status cublasLtCreate(void** handle) {
    if (!handle) return kInvalidValue;
    if (!libraries::driver()) return kNotInitialized;
    if (libraries::look(kGkCublasLt, CUBLAS_MAJOR) == CUDA_ERROR_NOT_SUPPORTED) {
        library_unsupported("cublasLtCreate on this GPU");
        return kNotInitialized;
    }
    *handle = handles().add();
    return *handle ? kSuccess : kAllocFailed;
}

CUBLAS_EXPORT Status cublasLtDestroy(void* handle) {
    return handles().remove(handle) ? kSuccess : kNotInitialized;
}

CUBLAS_EXPORT size_t cublasLtGetVersion() {
    return CUBLAS_MAJOR * 10000;
}

CUBLAS_EXPORT size_t cublasLtGetCudartVersion() {
    return 0;  // it was built with no runtime
}

CUBLAS_EXPORT Status cublasLtGetProperty(int part, int* value) {
    if (!value || part < 0 || part > 2) return kInvalidValue;
    *value = part == 0 ? CUBLAS_MAJOR : 0;
    return kSuccess;
}

CUBLAS_EXPORT const char* cublasLtGetStatusName(Status status) {
    return name_of(status);
}

CUBLAS_EXPORT const char* cublasLtGetStatusString(Status status) {
    return name_of(status);
}
