// Products of matrices: single, double and half precision (sums of half in single), strided batches, and a
// matrix with a vector. Matrices are stored by columns. Scalars come from the host.
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <iterator>

#include "driver.h"
#include "gemm_ptx.h"
#include "roles.h"
#include "status.h"

using namespace cublas;

namespace {

enum Operation : int { kPlain = 0, kTransposed = 1, kConjugate = 2 };

// cudaDataType and cublasComputeType_t, of which these are known.
enum Type : int { kF32 = 0, kF64 = 1, kF16 = 2 };
enum Compute : int {
    kIn16 = 64,
    kIn16Pedantic = 65,
    kIn32 = 68,
    kIn32Pedantic = 69,
    kIn64 = 70,
    kIn64Pedantic = 71
};
constexpr int kFastest32[] = {74, 75, 77};  // in single precision, or faster where the GPU can

constexpr unsigned kThreads = 128;
constexpr unsigned kMostLayers = 65535;

libraries::Kernels kernels(kGemmPtx);

// Where element (row, column) of product `layer` is: address + row * rows + column * columns + layer *
// layers, in elements.
struct Matrix {
    const void* address;
    int64_t rows, columns, layers;
};

struct Product {
    int64_t m, n, k, batch;
    Matrix a, b, c;
    double alpha, beta;
};

size_t bytes_of(Type type) {
    return type == kF64 ? 8 : type == kF32 ? 4 : 2;
}

Matrix matrix(const void* address, int operation, int64_t leading, int64_t layers) {
    if (operation == kPlain) return {address, 1, leading, layers};
    return {address, leading, 1, layers};
}

Status meaning(CUresult result) {
    switch (result) {
        case CUDA_SUCCESS:
            return kSuccess;
        case CUDA_ERROR_NOT_INITIALIZED:
        case CUDA_ERROR_INVALID_CONTEXT:
            return kNotInitialized;
        case CUDA_ERROR_OUT_OF_MEMORY:
            return kAllocFailed;
        default:
            return kExecutionFailed;
    }
}

// `layer` products are done; this launches the next, as many as one grid has room for.
CUresult launch(const Handle& handle, Type type, const Product& product, int64_t layer) {
    const char* name = type == kF64 ? "gemm_f64" : type == kF32 ? "gemm_f32" : "gemm_f16";
    Product p = product;
    const auto skip = [&](Matrix& of) {
        of.address =
            static_cast<const char*>(of.address) + layer * of.layers * static_cast<int64_t>(bytes_of(type));
    };
    skip(p.a), skip(p.b), skip(p.c);
    float alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
    void* const scalars[] = {type == kF64 ? static_cast<void*>(&p.alpha) : &alpha,
                             type == kF64 ? static_cast<void*>(&p.beta) : &beta};
    void* arguments[] = {&p.m,        &p.n,         &p.k,        &p.a.address, &p.a.rows,   &p.a.columns,
                         &p.a.layers, &p.b.address, &p.b.rows,   &p.b.columns, &p.b.layers, &p.c.address,
                         &p.c.rows,   &p.c.columns, &p.c.layers, scalars[0],   scalars[1]};
    const auto blocks = static_cast<unsigned>((p.m * p.n + kThreads - 1) / kThreads);
    const auto layers = static_cast<unsigned>(std::min<int64_t>(p.batch - layer, kMostLayers));
    return kernels.launch(name, handle.stream, blocks, layers, kThreads, arguments);
}

Status multiply(const Handle* handle, Type type, const Product& product) {
    if (!handle) return kNotInitialized;
    if (product.m < 0 || product.n < 0 || product.k < 0 || product.batch < 0) return kInvalidValue;
    if (product.m == 0 || product.n == 0 || product.batch == 0) return kSuccess;
    if ((product.m * product.n + kThreads - 1) / kThreads > INT32_MAX) return kInvalidValue;
    for (int64_t layer = 0; layer < product.batch; layer += kMostLayers) {
        const CUresult result = launch(*handle, type, product, layer);
        if (result != CUDA_SUCCESS) return meaning(result);
    }
    return kSuccess;
}

// Whether operands of these shapes fit their leading dimensions.
bool fits(int operation, int64_t rows, int64_t columns, int64_t leading) {
    return operation >= kPlain && operation <= kConjugate &&
           leading >= std::max<int64_t>(1, operation == kPlain ? rows : columns);
}

float from_half(const void* half) {
    uint16_t bits;
    memcpy(&bits, half, sizeof bits);
    const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = 0;
    if (exponent == 0) {
        value = static_cast<float>(fraction) / 16777216.0f;
    } else {
        const uint32_t wide = (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
        memcpy(&value, &wide, sizeof value);
    }
    return bits & 0x8000 ? -value : value;
}

double scalar(const void* at, Type type) {
    if (type == kF64) return *static_cast<const double*>(at);
    if (type == kF32) return *static_cast<const float*>(at);
    return from_half(at);
}

struct Operand {
    const void* address;
    int leading;
    int64_t stride;
};

// All of the gemm family. `scalars`: the type of alpha and beta.
Status gemm(const char* name, const Handle* handle, Type type, Type scalars, int op_a, int op_b, int m, int n,
            int k, const void* alpha, Operand a, Operand b, const void* beta, Operand c, int batch) {
    if (!handle) return kNotInitialized;
    if (handle->pointers != kHost) return static_cast<Status>(library_unsupported(name));
    if (!alpha || !beta || m < 0 || n < 0 || k < 0 || batch < 0) return kInvalidValue;
    if (!fits(op_a, m, k, a.leading) || !fits(op_b, k, n, b.leading) || !fits(kPlain, m, n, c.leading)) {
        return kInvalidValue;
    }
    return multiply(
        handle, type,
        {m, n, k, batch, matrix(a.address, op_a, a.leading, a.stride),
         matrix(b.address, op_b, b.leading, b.stride), matrix(c.address, kPlain, c.leading, c.stride),
         scalar(alpha, scalars), scalar(beta, scalars)});
}

// The precision that scalars have; false for what is not done here.
bool scalars_of(int compute, Type type, Type& scalars) {
    const bool in_16 = compute == kIn16 || compute == kIn16Pedantic;
    const bool in_32 =
        compute == kIn32 || compute == kIn32Pedantic ||
        std::find(std::begin(kFastest32), std::end(kFastest32), compute) != std::end(kFastest32);
    const bool in_64 = compute == kIn64 || compute == kIn64Pedantic;
    scalars = in_16 ? kF16 : in_32 ? kF32 : kF64;
    return (in_16 && type == kF16) || (in_32 && (type == kF32 || type == kF16)) || (in_64 && type == kF64);
}

Status gemv(const char* name, const Handle* handle, Type type, int op, int m, int n, const void* alpha,
            const void* a, int leading, const void* x, int x_step, const void* beta, void* y, int y_step) {
    if (!handle) return kNotInitialized;
    if (handle->pointers != kHost) return static_cast<Status>(library_unsupported(name));
    if (!alpha || !beta || m < 0 || n < 0 || x_step == 0 || y_step == 0 || !fits(kPlain, m, n, leading) ||
        op < kPlain || op > kConjugate) {
        return kInvalidValue;
    }
    const int64_t rows = op == kPlain ? m : n, inner = op == kPlain ? n : m;
    const auto bytes = static_cast<int64_t>(bytes_of(type));
    // A vector that is walked backwards begins at its last element.
    const auto begin = [&](const void* at, int64_t step, int64_t length) -> const void* {
        return static_cast<const char*>(at) - (step < 0 ? step * (length - 1) * bytes : 0);
    };
    return multiply(handle, type,
                    {rows,
                     1,
                     inner,
                     1,
                     matrix(a, op, leading, 0),
                     {begin(x, x_step, inner), x_step, 0, 0},
                     {begin(y, y_step, rows), y_step, 0, 0},
                     scalar(alpha, type),
                     scalar(beta, type)});
}

}  // namespace

#define CUBLAS_GEMM(name, T, type)                                                                         \
    CUBLAS_EXPORT Status name(Handle* handle, int op_a, int op_b, int m, int n, int k, const T* alpha,     \
                              const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc) {    \
        return gemm(#name, handle, type, type, op_a, op_b, m, n, k, alpha, {a, lda, 0}, {b, ldb, 0}, beta, \
                    {c, ldc, 0}, 1);                                                                       \
    }

#define CUBLAS_GEMM_STRIDED(name, T, type)                                                             \
    CUBLAS_EXPORT Status name(Handle* handle, int op_a, int op_b, int m, int n, int k, const T* alpha, \
                              const T* a, int lda, long long stride_a, const T* b, int ldb,            \
                              long long stride_b, const T* beta, T* c, int ldc, long long stride_c,    \
                              int batch) {                                                             \
        return gemm(#name, handle, type, type, op_a, op_b, m, n, k, alpha, {a, lda, stride_a},         \
                    {b, ldb, stride_b}, beta, {c, ldc, stride_c}, batch);                              \
    }

#define CUBLAS_GEMV(name, T, type)                                                                       \
    CUBLAS_EXPORT Status name(Handle* handle, int op, int m, int n, const T* alpha, const T* a, int lda, \
                              const T* x, int x_step, const T* beta, T* y, int y_step) {                 \
        return gemv(#name, handle, type, op, m, n, alpha, a, lda, x, x_step, beta, y, y_step);           \
    }

CUBLAS_GEMM(cublasSgemm_v2, float, kF32)
CUBLAS_GEMM(cublasDgemm_v2, double, kF64)
CUBLAS_GEMM(cublasHgemm, uint16_t, kF16)
CUBLAS_GEMM_STRIDED(cublasSgemmStridedBatched, float, kF32)
CUBLAS_GEMM_STRIDED(cublasDgemmStridedBatched, double, kF64)
CUBLAS_GEMM_STRIDED(cublasHgemmStridedBatched, uint16_t, kF16)
CUBLAS_GEMV(cublasSgemv_v2, float, kF32)
CUBLAS_GEMV(cublasDgemv_v2, double, kF64)

CUBLAS_EXPORT Status cublasSgemmEx(Handle* handle, int op_a, int op_b, int m, int n, int k,
                                   const float* alpha, const void* a, int type_a, int lda, const void* b,
                                   int type_b, int ldb, const float* beta, void* c, int type_c, int ldc) {
    if (type_a != type_b || type_a != type_c || (type_a != kF32 && type_a != kF16)) {
        return static_cast<Status>(library_unsupported("cublasSgemmEx of these types"));
    }
    return gemm("cublasSgemmEx", handle, static_cast<Type>(type_a), kF32, op_a, op_b, m, n, k, alpha,
                {a, lda, 0}, {b, ldb, 0}, beta, {c, ldc, 0}, 1);
}

CUBLAS_EXPORT Status cublasGemmStridedBatchedEx(Handle* handle, int op_a, int op_b, int m, int n, int k,
                                                const void* alpha, const void* a, int type_a, int lda,
                                                long long stride_a, const void* b, int type_b, int ldb,
                                                long long stride_b, const void* beta, void* c, int type_c,
                                                int ldc, long long stride_c, int batch, int compute,
                                                int algorithm) {
    Type scalars;
    if (type_a != type_b || type_a != type_c || !scalars_of(compute, static_cast<Type>(type_a), scalars)) {
        return static_cast<Status>(library_unsupported("cublasGemmEx of these types"));
    }
    return gemm("cublasGemmEx", handle, static_cast<Type>(type_a), scalars, op_a, op_b, m, n, k, alpha,
                {a, lda, stride_a}, {b, ldb, stride_b}, beta, {c, ldc, stride_c}, batch);
}

CUBLAS_EXPORT Status cublasGemmEx(Handle* handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
                                  const void* a, int type_a, int lda, const void* b, int type_b, int ldb,
                                  const void* beta, void* c, int type_c, int ldc, int compute,
                                  int algorithm) {
    return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb,
                                      0, beta, c, type_c, ldc, 0, 1, compute, algorithm);
}
