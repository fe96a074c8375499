/* A library with the ABI of NVIDIA's cuSOLVER, as its public documentation has it, which computes nothing and writes down
 * what it is given: for tests/libraries/test_nvidia.py. RECORDING_CUBLAS_LOG names the file. */
#include "recording.h"

static int objects;
static int descriptor_base;

EXPORT cusolverDnCreate(void** handle) {
    *handle = (void*)0x3000;
    return record("SolverCreate");
}
EXPORT cusolverDnSetStream(void* handle, void* stream) {
    return record("SolverStream %s", stream ? "own" : "default");
}
EXPORT cusolverDnCreateParams(void** params) {
    *params = (void*)0x3100;
    ++objects;
    return 0;
}
EXPORT cusolverDnDestroyParams(void* params) {
    --objects;
    return params != (void*)0x3100;
}
EXPORT cusolverDnCreateSyevjInfo(void** info) {
    *info = (void*)0x3200;
    ++objects;
    return 0;
}
EXPORT cusolverDnDestroySyevjInfo(void* info) {
    --objects;
    return info != (void*)0x3200;
}
EXPORT cusolverDnXsyevjSetTolerance(void* info, double tolerance) {
    return record("Tolerance %g", tolerance);
}
EXPORT cusolverDnXsyevjSetMaxSweeps(void* info, int sweeps) {
    return record("Sweeps %d", sweeps);
}
EXPORT cusolverDnXsyevjSetSortEig(void* info, int sorted) {
    return record("Sorted %d", sorted);
}

EXPORT cusolverDnCreateGesvdjInfo(void** info) {
    return cusolverDnCreateSyevjInfo(info);
}
EXPORT cusolverDnDestroyGesvdjInfo(void* info) {
    return cusolverDnDestroySyevjInfo(info);
}
EXPORT cusolverDnXgesvdjSetTolerance(void* info, double tolerance) {
    return info != (void*)0x3200;
}
EXPORT cusolverDnXgesvdjSetMaxSweeps(void* info, int sweeps) {
    return info != (void*)0x3200;
}
EXPORT cusolverDnXgesvdjSetSortEig(void* info, int sorted) {
    return info != (void*)0x3200;
}

EXPORT cusolverDnDgetrf_bufferSize(void* handle, int m, int n, double* A, int lda, int* count) {
    *count = 1000;
    return record("DgetrfSize %d %d %p %d", m, n, (void*)A, lda);
}
EXPORT cusolverDnDgetrf(void* handle, int m, int n, double* A, int lda, double* work, int* pivots, int* info) {
    record("Room %p", (void*)work);
    return record("Dgetrf %d %d %p %d %p %p", m, n, (void*)A, lda, (void*)pivots, (void*)info);
}
EXPORT cusolverDnCheevjBatched_bufferSize(void* handle, int job, int fill, int n, const void* A, int lda, const float* W,
                                          int* count, void* info, int batch) {
    *count = 1 << 20; /* of 8 bytes: more than a stream's room has at first */
    return record("CheevjBatchedSize %d %d %d %p %d %p %d", job, fill, n, A, lda, (void*)W, batch) || !info;
}
EXPORT cusolverDnCheevjBatched(void* handle, int job, int fill, int n, void* A, int lda, float* W, void* work, int count,
                               int* info, void* settings, int batch) {
    record("Room %p", work);
    return record("CheevjBatched %d %d %d %p %d %p %d %p %d", job, fill, n, A, lda, (void*)W, count, (void*)info, batch) ||
           !settings;
}
EXPORT cusolverDnXsyevd_bufferSize(void* handle, void* params, int job, int fill, int64_t n, int Atype, const void* A,
                                   int64_t lda, int Wtype, const void* W, int compute, size_t* bytes, size_t* host) {
    *bytes = 12345;
    *host = n == 77 ? (size_t)1 << 40 : 678;
    return params != (void*)0x3100;
}
EXPORT cusolverDnXsyevd(void* handle, void* params, int job, int fill, int64_t n, int Atype, void* A, int64_t lda, int Wtype,
                        void* W, int compute, void* work, size_t bytes, void* host_work, size_t host, int* info) {
    record("Objects %d", objects);
    return record("Xsyevd %d %d %ld %d %p %ld %d %p %d %s %zu %s %zu %p", job, fill, (long)n, Atype, A, (long)lda, Wtype, W,
                  compute, work ? "room" : "none", bytes, host_work ? "room" : "none", host, (void*)info);
}
EXPORT cusolverDnSgesvdj_bufferSize(void* handle, int job, int economical, int m, int n, const float* A,
                                    int lda, const float* S, const float* U, int ldu, const float* V, int ldv,
                                    int* count, void* info) {
    *count = 10;
    return record("SgesvdjSize %d %p %p", job, (void*)U, (void*)V);
}
EXPORT cusolverDnSgesvdj(void* handle, int job, int economical, int m, int n, float* A, int lda, float* S,
                         float* U, int ldu, float* V, int ldv, float* work, int count, int* code,
                         void* info) {
    return record("Sgesvdj %d %p %p", job, (void*)U, (void*)V);
}
EXPORT cusolverDnXgeev_bufferSize(void* handle, void* params, int left, int right, int64_t n, int Atype,
                                  const void* A, int64_t lda, int Wtype, const void* W, int VLtype,
                                  const void* VL, int64_t ldvl, int VRtype, const void* VR, int64_t ldvr,
                                  int compute, size_t* bytes, size_t* host) {
    *bytes = 222;
    *host = 33;
    return params != (void*)0x3100;
}
EXPORT cusolverDnXgeev(void* handle, void* params, int left, int right, int64_t n, int Atype, void* A,
                       int64_t lda, int Wtype, void* W, int VLtype, void* VL, int64_t ldvl, int VRtype,
                       void* VR, int64_t ldvr, int compute, void* work, size_t bytes, void* host_work,
                       size_t host, int* info) {
    return record("Xgeev %d %d %ld %d %p %ld %d %p %d %p %ld %d %p %ld %d %s %zu %s %zu %p", left, right,
                  (long)n, Atype, A, (long)lda, Wtype, W, VLtype, VL, (long)ldvl, VRtype, VR, (long)ldvr,
                  compute, work ? "room" : "none", bytes, host_work ? "room" : "none", host, (void*)info);
}
EXPORT cusolverDnCgesvdaStridedBatched_bufferSize(void* handle, int job, int rank, int m, int n,
                                                  const void* A, int lda, long long strideA, const float* S,
                                                  long long strideS, const void* U, int ldu,
                                                  long long strideU, const void* V, int ldv,
                                                  long long strideV, int* count, int batch) {
    *count = 500;
    return record("CgesvdaSize %d %d %d %d %p %d %lld %p %lld %p %d %lld %p %d %lld %d", job, rank, m, n, A,
                  lda, strideA, (void*)S, strideS, U, ldu, strideU, V, ldv, strideV, batch);
}
EXPORT cusolverDnCgesvdaStridedBatched(void* handle, int job, int rank, int m, int n, const void* A, int lda,
                                       long long strideA, float* S, long long strideS, void* U, int ldu,
                                       long long strideU, void* V, int ldv, long long strideV, void* work,
                                       int count, int* info, double* residuals, int batch) {
    return record("Cgesvda %d %d %d %d %p %d %lld %p %lld %p %d %lld %p %d %lld %d %p %p %d", job, rank, m, n,
                  A, lda, strideA, (void*)S, strideS, U, ldu, strideU, V, ldv, strideV, count, (void*)info,
                  (void*)residuals, batch);
}
EXPORT cusolverDnZhetrd_bufferSize(void* handle, int fill, int n, const void* A, int lda, const double* D,
                                   const double* E, const void* tau, int* count) {
    *count = 640;
    return record("ZhetrdSize %d %d %p %d %p %p %p", fill, n, A, lda, (void*)D, (void*)E, tau);
}
EXPORT cusolverDnZhetrd(void* handle, int fill, int n, void* A, int lda, double* D, double* E, void* tau,
                        void* work, int count, int* info) {
    return record("Zhetrd %d %d %p %d %p %p %p %d %p", fill, n, A, lda, (void*)D, (void*)E, tau, count,
                  (void*)info) ||
           !work;
}
EXPORT cusolverDnXgesvdp_bufferSize(void* handle, void* params, int job, int economical, int64_t m, int64_t n,
                                    int Atype, const void* A, int64_t lda, int Stype, const void* S, int Utype,
                                    const void* U, int64_t ldu, int Vtype, const void* V, int64_t ldv,
                                    int compute, size_t* bytes, size_t* host) {
    *bytes = 77;
    *host = 0;
    return params != (void*)0x3100;
}
EXPORT cusolverDnXgesvdp(void* handle, void* params, int job, int economical, int64_t m, int64_t n, int Atype,
                         void* A, int64_t lda, int Stype, void* S, int Utype, void* U, int64_t ldu, int Vtype,
                         void* V, int64_t ldv, int compute, void* work, size_t bytes, void* host_work,
                         size_t host, int* info, double* error) {
    *error = 0.125;
    return record("Xgesvdp %d %d %ld %ld %d %p %ld %d %p %d %p %ld %d %p %ld %d %zu %zu %p", job, economical,
                  (long)m, (long)n, Atype, A, (long)lda, Stype, S, Utype, U, (long)ldu, Vtype, V, (long)ldv,
                  compute, bytes, host, (void*)info);
}

/* The sparse part has handles of its own, and descriptors of cuSPARSE's, which NVIDIA's library needs. */
EXPORT cusolverSpCreate(void** handle) {
    *handle = (void*)0x3300;
    return 0;
}
EXPORT cusolverSpSetStream(void* handle, void* stream) {
    return record("SparseStream %s", stream ? "own" : "default") || handle != (void*)0x3300;
}
EXPORT cusparseCreateMatDescr(void** to) {
    *to = (void*)0x3400;
    ++objects;
    return 0;
}
EXPORT cusparseSetMatIndexBase(void* descriptor, int base) {
    descriptor_base = base;
    return descriptor != (void*)0x3400;
}
EXPORT cusparseDestroyMatDescr(void* descriptor) {
    --objects;
    return descriptor != (void*)0x3400;
}
EXPORT cusolverSpCcsrlsvqrHost(void* handle, int m, int nnz, void* descriptor, const void* values,
                               const int* offsets, const int* indices, const void* b, float tolerance,
                               int reorder, void* x, int* singularity) {
    const float *value = values, *right = b;
    *singularity = 5;
    for (int i = 0; i < 2 * m; ++i) ((float*)x)[i] = right[i];
    record("SparsePlaces %p %p %p", values, (void*)offsets, (void*)indices);
    record("SparseOffsets %d %d %d %d", offsets[0], offsets[1], offsets[2], offsets[3]);
    record("SparseIndices %d %d %d %d", indices[0], indices[1], indices[2], indices[3]);
    return record("Ccsrlsvqr %d %d %d %g %g %g %g %d", m, nnz, descriptor_base, (double)value[0],
                  (double)value[2], (double)value[7], (double)tolerance, reorder) ||
           handle != (void*)0x3300 || descriptor != (void*)0x3400;
}
/* Reads the slice, believes what is there, and is not to be called. */
EXPORT cusolverSpCcsrlsvqr(void) {
    return record("believing");
}

/* The library may refuse what it does not do. */
EXPORT cusolverDnSpotrs(void) {
    return 9;
}
