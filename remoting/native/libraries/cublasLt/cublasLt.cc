// cuBLASLt's handles. Who finds no algorithm here asks cuBLAS.
#include <stddef.h>

#include <new>

#include "cublas/status.h"
#include "roles.h"

using namespace cublas;

CUBLAS_EXPORT Status cublasLtCreate(char** handle) {
    if (!handle) return kInvalidValue;
    *handle = new (std::nothrow) char;
    return *handle ? kSuccess : kAllocFailed;
}

CUBLAS_EXPORT Status cublasLtDestroy(char* handle) {
    delete handle;
    return kSuccess;
}

CUBLAS_EXPORT size_t cublasLtGetVersion() {
    return CUBLAS_MAJOR * 10000;
}

CUBLAS_EXPORT size_t cublasLtGetCudartVersion() {
    return 0;  // it was built with no runtime
}

CUBLAS_EXPORT const char* cublasLtGetStatusName(Status status) {
    return status == kSuccess ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

CUBLAS_EXPORT const char* cublasLtGetStatusString(Status status) {
    return cublasLtGetStatusName(status);
}
