#include "copy.h"

#include "forward.h"

namespace cudart {

CUresult copy_now(const Driver& driver, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                  DefaultStream stream) {
    const bool own = stream == DefaultStream::per_thread;
    switch (kind) {
        case cudaMemcpyHostToDevice:
            return invoke(own ? driver.cuMemcpyHtoD_v2_ptds : driver.cuMemcpyHtoD_v2, to, from, bytes);
        case cudaMemcpyDeviceToHost:
            return invoke(own ? driver.cuMemcpyDtoH_v2_ptds : driver.cuMemcpyDtoH_v2, to, from, bytes);
        case cudaMemcpyDeviceToDevice:
            return invoke(own ? driver.cuMemcpyDtoD_v2_ptds : driver.cuMemcpyDtoD_v2, to, from, bytes);
        default:
            return invoke(own ? driver.cuMemcpy_ptds : driver.cuMemcpy, to, from, bytes);
    }
}

CUresult copy_on(const Driver& driver, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
    switch (kind) {
        case cudaMemcpyHostToDevice:
            return invoke(driver.cuMemcpyHtoDAsync_v2, to, from, bytes, stream);
        case cudaMemcpyDeviceToHost:
            return invoke(driver.cuMemcpyDtoHAsync_v2, to, from, bytes, stream);
        case cudaMemcpyDeviceToDevice:
            return invoke(driver.cuMemcpyDtoDAsync_v2, to, from, bytes, stream);
        default:
            return invoke(driver.cuMemcpyAsync, to, from, bytes, stream);
    }
}

namespace {

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, DefaultStream stream) {
    return call<Need::context>([&](const Driver& driver) {
        if (!known_kind(kind)) return cudaErrorInvalidMemcpyDirection;
        return bytes ? translated(copy_now(driver, to, from, bytes, kind, stream)) : cudaSuccess;
    });
}

CUresult set_now(const Driver& driver, void* to, int value, size_t bytes, DefaultStream stream) {
    const bool own = stream == DefaultStream::per_thread;
    return invoke(own ? driver.cuMemsetD8_v2_ptds : driver.cuMemsetD8_v2, to, value, bytes);
}

}  // namespace
}  // namespace cudart

using namespace cudart;

extern "C" {

cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
    return copy(dst, src, count, kind, DefaultStream::legacy);
}

cudaError_t cudaMemcpy_ptds(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
    return copy(dst, src, count, kind, DefaultStream::per_thread);
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return call<Need::context>([&](const Driver& driver) {
        if (!known_kind(kind)) return cudaErrorInvalidMemcpyDirection;
        return count ? translated(copy_on(driver, dst, src, count, kind, stream)) : cudaSuccess;
    });
}

cudaError_t cudaMemset(void* devPtr, int value, size_t count) {
    return call<Need::context>([&](const Driver& driver) {
        return count ? set_now(driver, devPtr, value, count, DefaultStream::legacy) : CUDA_SUCCESS;
    });
}

cudaError_t cudaMemset_ptds(void* devPtr, int value, size_t count) {
    return call<Need::context>([&](const Driver& driver) {
        return count ? set_now(driver, devPtr, value, count, DefaultStream::per_thread) : CUDA_SUCCESS;
    });
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
    return call<Need::context>([&](const Driver& driver) {
        return count ? invoke(driver.cuMemsetD8Async, devPtr, value, count, stream) : CUDA_SUCCESS;
    });
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int dstDevice, const void* src, int srcDevice, size_t count,
                                cudaStream_t stream) {
    return call<Need::context>([&](const Driver& driver) {
        CUcontext to, from;
        CUresult result = primary_context(driver, dstDevice, to);
        if (result == CUDA_SUCCESS) result = primary_context(driver, srcDevice, from);
        if (result != CUDA_SUCCESS || count == 0) return result;
        return invoke(driver.cuMemcpyPeerAsync, dst, to, src, from, count, stream);
    });
}

cudaError_t cudaMemcpyPeer(void* dst, int dstDevice, const void* src, int srcDevice, size_t count) {
    return call<Need::context>([&](const Driver& driver) {
        CUcontext to, from;
        CUresult result = primary_context(driver, dstDevice, to);
        if (result == CUDA_SUCCESS) result = primary_context(driver, srcDevice, from);
        if (result != CUDA_SUCCESS || count == 0) return result;
        return invoke(driver.cuMemcpyPeer, dst, to, src, from, count);
    });
}
}
