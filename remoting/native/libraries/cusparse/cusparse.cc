// cuSPARSE's handles, and the functions that are called in several steps.
#include "cusparse_messages.h"
#include "handle.h"
#include "own_call.h"
#include "roles.h"
#include "status.h"

using namespace cusparse;
using namespace maths;
using namespace maths::cusparse;

namespace {

constexpr int kVersion[] = {LIBRARY_VERSION};

template <typename Value>
Status get(const void* handle, std::atomic<Value> Handle::* member, Value* value) {
    const auto found = all<Handle>().find(handle);
    if (!found) return kNotInitialized;
    if (!value) return kInvalidValue;
    *value = (*found).*member;
    return kSuccess;
}
template <typename Value>
Status set(const void* handle, std::atomic<Value> Handle::* member, Value value) {
    const auto found = all<Handle>().find(handle);
    if (!found) return kNotInitialized;
    (*found).*member = value;
    return kSuccess;
}

// The state between the steps of a computation, of which the ends keep none: each step says all again.
struct Steps {};

Status create_steps(void** to) {
    if (!to) return kInvalidValue;
    *to = all<Steps>().add();
    return *to ? kSuccess : kAllocFailed;
}
Status destroy_steps(void* steps) {
    return !steps || all<Steps>().remove(steps) ? kSuccess : kInvalidValue;
}

// A step that leaves nothing to do here.
template <typename... Live>
int nothing(const void* handle, Live... live) {
    if (!all<Handle>().find(handle)) return kNotInitialized;
    return (live && ...) ? kSuccess : kInvalidValue;
}

// The number of entries is a result that the program asks the descriptor for, before it gives memory for
// them.
int keep_count(int status, void* descriptor, int64_t count) {
    const auto found = all<Sparse>().find(descriptor);
    if (status != kSuccess || !found) return status;
    found->entries = count;
    return kSuccess;
}

}  // namespace

// Told here, and not in the midst of work: that nothing computes.
CUSPARSE_EXPORT int cusparseCreate(void** handle) {
    if (!handle) return kInvalidValue;
    if (!libraries::driver()) return kNotInitialized;
    if (libraries::look(kGkCusparse, LIBRARY_MAJOR) == CUDA_ERROR_NOT_SUPPORTED) {
        library_unsupported("cusparseCreate on this GPU");
        return kNotInitialized;
    }
    *handle = all<Handle>().add();
    return *handle ? kSuccess : kAllocFailed;
}
CUSPARSE_EXPORT int cusparseDestroy(void* handle) {
    return all<Handle>().remove(handle) ? kSuccess : kNotInitialized;
}
CUSPARSE_EXPORT int cusparseSetStream(void* handle, CUstream stream) {
    return set(handle, &Handle::stream, stream);
}
CUSPARSE_EXPORT int cusparseGetStream(void* handle, CUstream* stream) {
    return get(handle, &Handle::stream, stream);
}
CUSPARSE_EXPORT int cusparseSetPointerMode(void* handle, int mode) {
    return mode == kHost || mode == kDevice ? set(handle, &Handle::pointers, mode) : kInvalidValue;
}
CUSPARSE_EXPORT int cusparseGetPointerMode(void* handle, int* mode) {
    return get(handle, &Handle::pointers, mode);
}

CUSPARSE_EXPORT int cusparseGetVersion(void* handle, int* version) {
    if (!all<Handle>().find(handle)) return kNotInitialized;
    if (!version) return kInvalidValue;
    *version = kVersion[0] * 1000 + kVersion[1] * 100 + kVersion[2];
    return kSuccess;
}
CUSPARSE_EXPORT int cusparseGetProperty(int part, int* value) {
    if (!value || part < 0 || part > 2) return kInvalidValue;
    *value = kVersion[part];
    return kSuccess;
}

CUSPARSE_EXPORT const char* cusparseGetErrorName(int status) {
    switch (status) {
        case kSuccess:
            return "CUSPARSE_STATUS_SUCCESS";
        case kNotInitialized:
            return "CUSPARSE_STATUS_NOT_INITIALIZED";
        case kAllocFailed:
            return "CUSPARSE_STATUS_ALLOC_FAILED";
        case kInvalidValue:
            return "CUSPARSE_STATUS_INVALID_VALUE";
        case kArchMismatch:
            return "CUSPARSE_STATUS_ARCH_MISMATCH";
        case kExecutionFailed:
            return "CUSPARSE_STATUS_EXECUTION_FAILED";
        case kZeroPivot:
            return "CUSPARSE_STATUS_ZERO_PIVOT";
        case kNotSupported:
            return "CUSPARSE_STATUS_NOT_SUPPORTED";
        case kInsufficientResources:
            return "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES";
        default:
            return "CUSPARSE_STATUS_INTERNAL_ERROR";
    }
}
CUSPARSE_EXPORT const char* cusparseGetErrorString(int status) {
    return status == kNotSupported ? "this function of cuSPARSE is not there on a slice of a GPU"
                                   : cusparseGetErrorName(status);
}

#define GK_STEPS(Name)                                               \
    CUSPARSE_EXPORT int cusparse##Name##_createDescr(void** to) {    \
        return create_steps(to);                                     \
    }                                                                \
    CUSPARSE_EXPORT int cusparse##Name##_destroyDescr(void* steps) { \
        return destroy_steps(steps);                                 \
    }
GK_STEPS(SpGEMM)
GK_STEPS(SpSV)
GK_STEPS(SpSM)

CUSPARSE_EXPORT int cusparseSpMV_preprocess(void* handle, int, const void*, void* A, void* x, const void*,
                                            void* y, int, int, void*) {
    return nothing(handle, is_live<Sparse>(A), is_live<Vector>(x), is_live<Vector>(y));
}
CUSPARSE_EXPORT int cusparseSpMM_preprocess(void* handle, int, int, const void*, void* A, void* B,
                                            const void*, void* C, int, int, void*) {
    return nothing(handle, is_live<Sparse>(A), is_live<Dense>(B), is_live<Dense>(C));
}
CUSPARSE_EXPORT int cusparseSDDMM_preprocess(void* handle, int, int, const void*, void* A, void* B,
                                             const void*, void* C, int, int, void*) {
    return nothing(handle, is_live<Dense>(A), is_live<Dense>(B), is_live<Sparse>(C));
}

CUSPARSE_EXPORT int cusparseSpGEMM_workEstimation(void* handle, int, int, const void*, void* A, void* B,
                                                  const void*, void* C, int, int, void* steps, size_t* bytes,
                                                  void*) {
    return answer_room(
        handle, is_live<Sparse>(A) && is_live<Sparse>(B) && is_live<Sparse>(C) && is_live<Steps>(steps),
        bytes);
}

// Asked for its room first, without memory.
CUSPARSE_EXPORT int cusparseSpGEMM_compute(void* handle, int opA, int opB, const void*, void* A, void* B,
                                           const void*, void* C, int compute, int alg, void* steps,
                                           size_t* bytes, void* buffer) {
    if (!is_live<Steps>(steps)) return kInvalidValue;
    if (!buffer)
        return answer_room(handle, is_live<Sparse>(A) && is_live<Sparse>(B) && is_live<Sparse>(C), bytes);
    OwnCall call(handle, k_cusparseSpGEMM_compute, kHost);
    spgemm_count message{};
    message.opA = opA, message.opB = opB, message.compute = compute, message.alg = alg;
    call.describe(message.A, A), call.describe(message.B, B), call.describe(message.C, C);
    int64_t count = 0;
    call.placed(message.count, &count, kI64, 1, Access::kWrite);
    const int status = call.send_and_fetch(&message, sizeof message);
    return keep_count(status, C, count);
}

CUSPARSE_EXPORT int cusparseSpGEMM_copy(void* handle, int opA, int opB, const void* alpha, void* A, void* B,
                                        const void* beta, void* C, int compute, int alg, void* steps) {
    OwnCall call(handle, k_cusparseSpGEMM_copy, false);
    spgemm message{};
    message.opA = opA, message.opB = opB, message.compute = compute, message.alg = alg;
    call.describe(message.A, A), call.describe(message.B, B), call.describe(message.C, C);
    call.scalar(message.alpha, alpha, as_type(compute)), call.scalar(message.beta, beta, as_type(compute));
    if (!is_live<Steps>(steps)) return kInvalidValue;
    // What C had before it has another pattern: the older functions add matrices.
    if (!call.on_device() && is_blas(compute) && !is_zero(message.beta, as_type(compute))) {
        return library_unsupported("cusparseSpGEMM with beta");
    }
    return call.send(&message, sizeof message);
}

CUSPARSE_EXPORT int cusparseSpSV_bufferSize(void* handle, int, const void*, void* A, void* x, void* y, int,
                                            int, void* steps, size_t* bytes) {
    return answer_room(
        handle, is_live<Sparse>(A) && is_live<Vector>(x) && is_live<Vector>(y) && is_live<Steps>(steps),
        bytes);
}
CUSPARSE_EXPORT int cusparseSpSV_analysis(void* handle, int, const void*, void* A, void* x, void* y, int, int,
                                          void* steps, void*) {
    return nothing(handle, is_live<Sparse>(A), is_live<Vector>(x), is_live<Vector>(y), is_live<Steps>(steps));
}
CUSPARSE_EXPORT int cusparseSpSV_solve(void* handle, int op, const void* alpha, void* A, void* x, void* y,
                                       int compute, int alg, void* steps) {
    OwnCall call(handle, k_cusparseSpSV_solve, false);
    spsv message{};
    message.op = op, message.compute = compute, message.alg = alg;
    call.describe(message.A, A), call.describe(message.x, x), call.describe(message.y, y);
    call.scalar(message.alpha, alpha, as_type(compute));
    return is_live<Steps>(steps) ? call.send(&message, sizeof message) : kInvalidValue;
}

CUSPARSE_EXPORT int cusparseSpSM_bufferSize(void* handle, int, int, const void*, void* A, void* B, void* C,
                                            int, int, void* steps, size_t* bytes) {
    return answer_room(
        handle, is_live<Sparse>(A) && is_live<Dense>(B) && is_live<Dense>(C) && is_live<Steps>(steps), bytes);
}
CUSPARSE_EXPORT int cusparseSpSM_analysis(void* handle, int, int, const void*, void* A, void* B, void* C, int,
                                          int, void* steps, void*) {
    return nothing(handle, is_live<Sparse>(A), is_live<Dense>(B), is_live<Dense>(C), is_live<Steps>(steps));
}
CUSPARSE_EXPORT int cusparseSpSM_solve(void* handle, int opA, int opB, const void* alpha, void* A, void* B,
                                       void* C, int compute, int alg, void* steps) {
    OwnCall call(handle, k_cusparseSpSM_solve, false);
    spsm message{};
    message.opA = opA, message.opB = opB, message.compute = compute, message.alg = alg;
    call.describe(message.A, A), call.describe(message.B, B), call.describe(message.C, C);
    call.scalar(message.alpha, alpha, as_type(compute));
    return is_live<Steps>(steps) ? call.send(&message, sizeof message) : kInvalidValue;
}

CUSPARSE_EXPORT int cusparseDenseToSparse_bufferSize(void* handle, void* A, void* B, int, size_t* bytes) {
    return answer_room(handle, is_live<Dense>(A) && is_live<Sparse>(B), bytes);
}
CUSPARSE_EXPORT int cusparseDenseToSparse_analysis(void* handle, void* A, void* B, int alg, void*) {
    OwnCall call(handle, k_cusparseDenseToSparse_analysis, kHost);
    to_sparse_count message{};
    message.alg = alg;
    call.describe(message.A, A), call.describe(message.B, B);
    int64_t count = 0;
    call.placed(message.count, &count, kI64, 1, Access::kWrite);
    const int status = call.send_and_fetch(&message, sizeof message);
    return keep_count(status, B, count);
}
CUSPARSE_EXPORT int cusparseDenseToSparse_convert(void* handle, void* A, void* B, int alg, void*) {
    OwnCall call(handle, k_cusparseDenseToSparse_convert, false);
    to_sparse message{};
    message.alg = alg;
    call.describe(message.A, A), call.describe(message.B, B);
    return call.send(&message, sizeof message);
}
