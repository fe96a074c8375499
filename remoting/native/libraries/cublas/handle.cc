// cuBLAS' handles, and copies between host and device by its shapes.
#include "handle.h"

#include <stddef.h>
#include <stdint.h>

#include "roles.h"
#include "status.h"

using namespace cublas;

libraries::Handles<Handle>& cublas::handles() {
    static auto* const all = new libraries::Handles<Handle>;  // never destroyed: exit handlers may call
    return *all;
}

namespace {

constexpr int kVersion[] = {CUBLAS_MAJOR, 0, 0};

template <typename Value>
Status get(const void* handle, std::atomic<Value> Handle::* member, Value* value) {
    const auto found = handles().find(handle);
    if (!found) return kNotInitialized;
    if (!value) return kInvalidValue;
    *value = (*found).*member;
    return kSuccess;
}

template <typename Value>
Status set(const void* handle, std::atomic<Value> Handle::* member, Value value) {
    const auto found = handles().find(handle);
    if (!found) return kNotInitialized;
    (*found).*member = value;
    return kSuccess;
}

// `count` columns of `rows` bytes, as a vector's steps and a matrix' leading dimension have them.
struct Columns {
    int64_t count, rows;
    const void* from;
    int64_t from_lead;
    void* to;
    int64_t to_lead;
};

Status copy(const Columns& columns, bool in, CUstream stream, bool wait) {
    const libraries::Driver* driver = libraries::driver();
    if (!driver) return kNotInitialized;
    if (columns.count < 0 || columns.rows < 0 || columns.from_lead < columns.rows ||
        columns.to_lead < columns.rows) {
        return kInvalidValue;
    }
    if (columns.count == 0 || columns.rows == 0) return kSuccess;
    CUDA_MEMCPY2D request{};
    request.srcMemoryType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    request.srcHost = columns.from;
    request.srcDevice = reinterpret_cast<CUdeviceptr>(columns.from);
    request.srcPitch = static_cast<size_t>(columns.from_lead);
    request.dstMemoryType = in ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    request.dstHost = columns.to;
    request.dstDevice = reinterpret_cast<CUdeviceptr>(columns.to);
    request.dstPitch = static_cast<size_t>(columns.to_lead);
    request.WidthInBytes = static_cast<size_t>(columns.rows);
    request.Height = static_cast<size_t>(columns.count);
    CUresult result = driver->copy_rows(&request, stream);
    if (result == CUDA_SUCCESS && wait) result = driver->synchronize(stream);
    return result == CUDA_SUCCESS ? kSuccess : kMappingError;
}

Status copy_vector(int64_t n, int64_t bytes, const void* from, int64_t from_step, void* to, int64_t to_step,
                   bool in, CUstream stream, bool wait) {
    if (bytes <= 0 || from_step <= 0 || to_step <= 0 || from_step > INT32_MAX || to_step > INT32_MAX) {
        return kInvalidValue;
    }
    return copy({n, bytes, from, from_step * bytes, to, to_step * bytes}, in, stream, wait);
}

Status copy_matrix(int64_t rows, int64_t columns, int64_t bytes, const void* from, int64_t from_lead, void* to,
                   int64_t to_lead, bool in, CUstream stream, bool wait) {
    const int64_t most = INT64_MAX / (bytes > 0 ? bytes : 1);
    if (bytes <= 0 || rows > most || from_lead > most || to_lead > most) return kInvalidValue;
    return copy({columns, rows * bytes, from, from_lead * bytes, to, to_lead * bytes}, in, stream, wait);
}

}  // namespace

// Told here, and not in the midst of work: that nothing computes. What else is wrong, calls will say.
CUBLAS_EXPORT Status cublasCreate_v2(void** handle) {
    if (!handle) return kInvalidValue;
    if (!libraries::driver()) return kNotInitialized;
    if (libraries::look(kGkCublas, CUBLAS_MAJOR) == CUDA_ERROR_NOT_SUPPORTED) {
        library_unsupported("cublasCreate on this GPU");
        return kNotInitialized;
    }
    *handle = handles().add();
    return *handle ? kSuccess : kAllocFailed;
}

CUBLAS_EXPORT Status cublasDestroy_v2(void* handle) {
    return handles().remove(handle) ? kSuccess : kNotInitialized;
}

// The new stream has the default workspace, as NVIDIA's has it.
CUBLAS_EXPORT Status cublasSetStream_v2(void* handle, CUstream stream) {
    set<uint64_t>(handle, &Handle::workspace_bytes, 0);
    set<uint64_t>(handle, &Handle::workspace, 0);
    return set(handle, &Handle::stream, stream);
}

CUBLAS_EXPORT Status cublasGetStream_v2(void* handle, CUstream* stream) {
    return get(handle, &Handle::stream, stream);
}

CUBLAS_EXPORT Status cublasSetPointerMode_v2(void* handle, int mode) {
    if (mode != kHost && mode != kDevice) return kInvalidValue;
    return set(handle, &Handle::pointers, mode);
}

CUBLAS_EXPORT Status cublasGetPointerMode_v2(void* handle, int* mode) {
    return get(handle, &Handle::pointers, mode);
}

CUBLAS_EXPORT Status cublasSetMathMode(void* handle, int mode) {
    return set(handle, &Handle::math, mode);
}

CUBLAS_EXPORT Status cublasGetMathMode(void* handle, int* mode) {
    return get(handle, &Handle::math, mode);
}

CUBLAS_EXPORT Status cublasSetAtomicsMode(void* handle, int mode) {
    return set(handle, &Handle::atomics, mode);
}

CUBLAS_EXPORT Status cublasGetAtomicsMode(void* handle, int* mode) {
    return get(handle, &Handle::atomics, mode);
}

CUBLAS_EXPORT Status cublasSetSmCountTarget(void* handle, int count) {
    return count < 0 ? kInvalidValue : set(handle, &Handle::multiprocessors, count);
}

CUBLAS_EXPORT Status cublasGetSmCountTarget(void* handle, int* count) {
    return get(handle, &Handle::multiprocessors, count);
}

// NVIDIA's library uses it; the CPU end needs none.
CUBLAS_EXPORT Status cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes) {
    constexpr uint64_t kAlign = 256;
    const auto address = reinterpret_cast<uint64_t>(workspace);
    if (address % kAlign != 0) return kInvalidValue;
    set<uint64_t>(handle, &Handle::workspace_bytes, bytes);
    return set<uint64_t>(handle, &Handle::workspace, address);
}

// The forms of 32 and of 64 bits.
#define CUBLAS_COPIES(suffix, Int)                                                                          \
    CUBLAS_EXPORT Status cublasSetVector##suffix(Int n, Int bytes, const void* from, Int from_step,          \
                                                 void* to, Int to_step) {                                   \
        return copy_vector(n, bytes, from, from_step, to, to_step, true, nullptr, true);                    \
    }                                                                                                       \
    CUBLAS_EXPORT Status cublasGetVector##suffix(Int n, Int bytes, const void* from, Int from_step,          \
                                                 void* to, Int to_step) {                                   \
        return copy_vector(n, bytes, from, from_step, to, to_step, false, nullptr, true);                   \
    }                                                                                                       \
    CUBLAS_EXPORT Status cublasSetMatrix##suffix(Int rows, Int columns, Int bytes, const void* from,         \
                                                 Int from_lead, void* to, Int to_lead) {                    \
        return copy_matrix(rows, columns, bytes, from, from_lead, to, to_lead, true, nullptr, true);        \
    }                                                                                                       \
    CUBLAS_EXPORT Status cublasGetMatrix##suffix(Int rows, Int columns, Int bytes, const void* from,         \
                                                 Int from_lead, void* to, Int to_lead) {                    \
        return copy_matrix(rows, columns, bytes, from, from_lead, to, to_lead, false, nullptr, true);       \
    }                                                                                                       \
    CUBLAS_EXPORT Status cublasSetVectorAsync##suffix(Int n, Int bytes, const void* from, Int from_step,     \
                                                      void* to, Int to_step, CUstream stream) {             \
        return copy_vector(n, bytes, from, from_step, to, to_step, true, stream, false);                    \
    }                                                                                                       \
    CUBLAS_EXPORT Status cublasGetVectorAsync##suffix(Int n, Int bytes, const void* from, Int from_step,     \
                                                      void* to, Int to_step, CUstream stream) {             \
        return copy_vector(n, bytes, from, from_step, to, to_step, false, stream, false);                   \
    }                                                                                                       \
    CUBLAS_EXPORT Status cublasSetMatrixAsync##suffix(Int rows, Int columns, Int bytes, const void* from,    \
                                                      Int from_lead, void* to, Int to_lead,                 \
                                                      CUstream stream) {                                    \
        return copy_matrix(rows, columns, bytes, from, from_lead, to, to_lead, true, stream, false);        \
    }                                                                                                       \
    CUBLAS_EXPORT Status cublasGetMatrixAsync##suffix(Int rows, Int columns, Int bytes, const void* from,    \
                                                      Int from_lead, void* to, Int to_lead,                 \
                                                      CUstream stream) {                                    \
        return copy_matrix(rows, columns, bytes, from, from_lead, to, to_lead, false, stream, false);       \
    }

CUBLAS_COPIES(, int)
CUBLAS_COPIES(_64, int64_t)

CUBLAS_EXPORT Status cublasGetVersion_v2(void*, int* version) {
    if (!version) return kInvalidValue;
    *version = kVersion[0] * 10000 + kVersion[1] * 100 + kVersion[2];
    return kSuccess;
}

CUBLAS_EXPORT Status cublasGetProperty(int part, int* value) {
    if (!value || part < 0 || part > 2) return kInvalidValue;
    *value = kVersion[part];
    return kSuccess;
}

CUBLAS_EXPORT const char* cublasGetStatusName(Status status) {
    return name_of(status);
}

CUBLAS_EXPORT const char* cublasGetStatusString(Status status) {
    return status == kNotSupported ? "this function of cuBLAS is not there on a slice of a GPU"
                                   : name_of(status);
}
