/* A library with the ABI of NVIDIA's cuBLAS, as its public documentation has it, which computes nothing and writes down
 * what each function was given: for tests/libraries/test_nvidia.py. RECORDING_CUBLAS_LOG names the file. */
#include "recording.h"

static int handles;

static int pointers;

/* A scalar: its value, or where it is. */
static const char* scalar(const float* value, char* text) {
    if (pointers) {
        snprintf(text, 32, "%p", (const void*)value);
    } else {
        snprintf(text, 32, "%g", (double)*value);
    }
    return text;
}

#ifndef RECORDED_MAJOR
#define RECORDED_MAJOR 13
#endif
EXPORT cublasGetProperty(int part, int* value) {
    const int version[] = {RECORDED_MAJOR, 4, 2};
    *value = version[part];
    return 0;
}
EXPORT cublasCreate_v2(void** handle) {
    *handle = (void*)(intptr_t)(0x1000 + ++handles);
    return record("create %p", *handle);
}
EXPORT cublasDestroy_v2(void* handle) {
    return record("destroy %p", handle);
}
EXPORT cublasSetStream_v2(void* handle, void* stream) {
    return record("stream %p %s", handle, stream ? "own" : "default");
}
EXPORT cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes) {
    return record("workspace %p %zu", workspace, bytes);
}
EXPORT cublasSetPointerMode_v2(void* handle, int mode) {
    pointers = mode;
    return record("pointers %d", mode);
}
EXPORT cublasSetMathMode(void* handle, int mode) {
    return record("math %d", mode);
}
EXPORT cublasSetAtomicsMode(void* handle, int mode) {
    return record("atomics %d", mode);
}

EXPORT cublasSgemm_v2(void* handle, int transa, int transb, int m, int n, int k, const float* alpha, const float* A,
                      int lda, const float* B, int ldb, const float* beta, float* C, int ldc) {
    char a[32], b[32];
    return record("Sgemm %d %d %d %d %d %s %p %d %p %d %s %p %d", transa, transb, m, n, k, scalar(alpha, a),
                  (void*)A, lda, (void*)B, ldb, scalar(beta, b), (void*)C, ldc);
}
EXPORT cublasSgemm_v2_64(void* handle, int transa, int transb, int64_t m, int64_t n, int64_t k, const float* alpha,
                         const float* A, int64_t lda, const float* B, int64_t ldb, const float* beta, float* C,
                         int64_t ldc) {
    char a[32], b[32];
    return record("Sgemm64 %d %d %ld %ld %ld %s %p %ld %p %ld %s %p %ld", transa, transb, m, n, k, scalar(alpha, a),
                  (void*)A, lda, (void*)B, ldb, scalar(beta, b), (void*)C, ldc);
}
EXPORT cublasGemmStridedBatchedEx(void* handle, int transa, int transb, int m, int n, int k, const void* alpha,
                                  const void* A, int Atype, int lda, long long strideA, const void* B, int Btype,
                                  int ldb, long long strideB, const void* beta, void* C, int Ctype, int ldc,
                                  long long strideC, int batch, int compute, int algo) {
    char a[32], b[32];
    return record("GemmStridedBatchedEx %d %d %d %d %d %s %p %d %d %lld %p %d %d %lld %s %p %d %d %lld %d %d %d", transa,
                  transb, m, n, k, scalar(alpha, a), A, Atype, lda, strideA, B, Btype, ldb, strideB, scalar(beta, b), C,
                  Ctype, ldc, strideC, batch, compute, algo);
}
EXPORT cublasDtrsm_v2(void* handle, int side, int uplo, int trans, int diag, int m, int n, const double* alpha,
                      const double* A, int lda, double* B, int ldb) {
    return record("Dtrsm %d %d %d %d %d %d %g %p %d %p %d", side, uplo, trans, diag, m, n, *alpha, (void*)A, lda,
                  (void*)B, ldb);
}
EXPORT cublasZher2k_v2(void* handle, int uplo, int trans, int n, int k, const double* alpha, const void* A, int lda,
                       const void* B, int ldb, const double* beta, void* C, int ldc) {
    return record("Zher2k %d %d %d %d %g %g %p %d %p %d %g %p %d", uplo, trans, n, k, alpha[0], alpha[1], A, lda, B, ldb,
                  *beta, C, ldc);
}
EXPORT cublasCgetrsBatched(void* handle, int trans, int n, int nrhs, const void* const* A, int lda, const int* pivots,
                           void* const* B, int ldb, int* info, int batch) {
    *info = 0;
    return record("CgetrsBatched %d %d %d %p %d %p %p %d %d", trans, n, nrhs, (void*)A, lda, (void*)pivots, (void*)B, ldb,
                  batch);
}
EXPORT cublasSdot_v2(void* handle, int n, const float* x, int incx, const float* y, int incy, float* result) {
    return record("Sdot %d %p %d %p %d %s", n, (void*)x, incx, (void*)y, incy, result ? "there" : "nowhere");
}
/* It may fail, and the context be healthy: CUBLAS_STATUS_EXECUTION_FAILED. */
EXPORT cublasStrsm_v2(void) {
    return 13;
}

/* The library may refuse what it does not do. */
EXPORT cublasHgemm(void) {
    return 15;
}
