// Copies and fills of two- and three-dimensional regions.
#include "copy.h"
#include "copy_shape.h"
#include "forward.h"

using namespace cudart;

namespace {

CUDA_MEMCPY2D plane(const CUDA_MEMCPY3D& copy) {
    return {.srcXInBytes = copy.srcXInBytes,
            .srcY = copy.srcY,
            .srcMemoryType = copy.srcMemoryType,
            .srcHost = copy.srcHost,
            .srcDevice = copy.srcDevice,
            .srcArray = nullptr,
            .srcPitch = copy.srcPitch,
            .dstXInBytes = copy.dstXInBytes,
            .dstY = copy.dstY,
            .dstMemoryType = copy.dstMemoryType,
            .dstHost = copy.dstHost,
            .dstDevice = copy.dstDevice,
            .dstArray = nullptr,
            .dstPitch = copy.dstPitch,
            .WidthInBytes = copy.WidthInBytes,
            .Height = copy.Height};
}

// `send(driver, CUDA_MEMCPY2D)`.
template <typename Send>
cudaError_t copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                    size_t height, cudaMemcpyKind kind, Send send) {
    return call<Need::context>([&](const Driver& driver) {
        if (!known_kind(kind)) return cudaErrorInvalidMemcpyDirection;
        if (width == 0 || height == 0) return cudaSuccess;
        if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
        const Side source = {from, from_pitch, height, 0, 0, 0}, target = {to, to_pitch, height, 0, 0, 0};
        const CUDA_MEMCPY2D copy = plane(driver_copy({source, target, width, height, 1, kind}));
        return translated(send(driver, copy));
    });
}

// `send(driver, CUDA_MEMCPY3D)`.
template <typename Send>
cudaError_t copy_3d(const cudaMemcpy3DParms* given, Send send) {
    return call<Need::context>([&](const Driver& driver) {
        Shape shape;
        if (!given) return cudaErrorInvalidValue;
        if (cudaError_t error = shape_of(driver, *given, shape); error != cudaSuccess) return error;
        return shape.empty() ? cudaSuccess : translated(send(driver, driver_copy(shape)));
    });
}

// `send(driver, CUDA_MEMCPY3D_PEER)`.
template <typename Send>
cudaError_t copy_3d_peer(const cudaMemcpy3DPeerParms* given, Send send) {
    return call<Need::context>([&](const Driver& driver) {
        Shape shape;
        if (!given) return cudaErrorInvalidValue;
        const cudaMemcpy3DParms within = {given->srcArray, given->srcPos,           given->srcPtr,
                                          given->dstArray, given->dstPos,           given->dstPtr,
                                          given->extent,   cudaMemcpyDeviceToDevice};
        if (cudaError_t error = shape_of(driver, within, shape); error != cudaSuccess) return error;
        CUDA_MEMCPY3D_PEER copy;
        static_assert(sizeof copy == sizeof(CUDA_MEMCPY3D), "the same, with contexts where that has nothing");
        const CUDA_MEMCPY3D plain = driver_copy(shape);
        std::memcpy(&copy, &plain, sizeof copy);
        CUresult result = primary_context(driver, given->srcDevice, copy.srcContext);
        if (result == CUDA_SUCCESS) result = primary_context(driver, given->dstDevice, copy.dstContext);
        if (result == CUDA_SUCCESS && !shape.empty()) result = send(driver, copy);
        return translated(result);
    });
}

// Fills planes of `rows` rows each, `stride` rows apart: `fill(start, rows)` for one plane, or for all when
// nothing lies between them.
template <typename Fill>
CUresult fill_planes(const cudaPitchedPtr& memory, const cudaExtent& extent, Fill fill) {
    auto start = reinterpret_cast<CUdeviceptr>(memory.ptr);
    if (extent.width == 0 || extent.height == 0) return CUDA_SUCCESS;
    if (extent.height == memory.ysize) {
        return extent.depth ? fill(start, extent.height * extent.depth) : CUDA_SUCCESS;
    }
    CUresult result = CUDA_SUCCESS;
    for (size_t plane = 0; plane < extent.depth && result == CUDA_SUCCESS; ++plane) {
        result = fill(start, extent.height);
        start += memory.pitch * memory.ysize;
    }
    return result;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
    return copy_2d(dst, dpitch, src, spitch, width, height, kind,
                   [](auto& driver, auto& copy) { return invoke(driver.cuMemcpy2DUnaligned_v2, &copy); });
}

cudaError_t cudaMemcpy2D_ptds(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                              size_t height, cudaMemcpyKind kind) {
    return copy_2d(dst, dpitch, src, spitch, width, height, kind, [](auto& driver, auto& copy) {
        return invoke(driver.cuMemcpy2DUnaligned_v2_ptds, &copy);
    });
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_2d(dst, dpitch, src, spitch, width, height, kind, [&](auto& driver, auto& copy) {
        return invoke(driver.cuMemcpy2DAsync_v2, &copy, stream);
    });
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
    return copy_3d(p, [](auto& driver, const auto& copy) { return invoke(driver.cuMemcpy3D_v2, &copy); });
}

cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms* p) {
    return copy_3d(p,
                   [](auto& driver, const auto& copy) { return invoke(driver.cuMemcpy3D_v2_ptds, &copy); });
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
    return copy_3d(
        p, [&](auto& driver, const auto& copy) { return invoke(driver.cuMemcpy3DAsync_v2, &copy, stream); });
}

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
    return copy_3d_peer(p,
                        [](auto& driver, const auto& copy) { return invoke(driver.cuMemcpy3DPeer, &copy); });
}

cudaError_t cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms* p) {
    return copy_3d_peer(
        p, [](auto& driver, const auto& copy) { return invoke(driver.cuMemcpy3DPeer_ptds, &copy); });
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
    return copy_3d_peer(
        p, [&](auto& driver, const auto& copy) { return invoke(driver.cuMemcpy3DPeerAsync, &copy, stream); });
}

cudaError_t cudaMemset2D(void* devPtr, size_t pitch, int value, size_t width, size_t height) {
    return cudaMemset3D({devPtr, pitch, width, height}, value, {width, height, 1});
}

cudaError_t cudaMemset2D_ptds(void* devPtr, size_t pitch, int value, size_t width, size_t height) {
    return cudaMemset3D_ptds({devPtr, pitch, width, height}, value, {width, height, 1});
}

cudaError_t cudaMemset2DAsync(void* devPtr, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
    return cudaMemset3DAsync({devPtr, pitch, width, height}, value, {width, height, 1}, stream);
}

cudaError_t cudaMemset3D(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent) {
    return call<Need::context>([&](const Driver& driver) {
        return fill_planes(pitchedDevPtr, extent, [&](CUdeviceptr start, size_t rows) {
            return invoke(driver.cuMemsetD2D8_v2, start, pitchedDevPtr.pitch, value, extent.width, rows);
        });
    });
}

cudaError_t cudaMemset3D_ptds(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent) {
    return call<Need::context>([&](const Driver& driver) {
        return fill_planes(pitchedDevPtr, extent, [&](CUdeviceptr start, size_t rows) {
            return invoke(driver.cuMemsetD2D8_v2_ptds, start, pitchedDevPtr.pitch, value, extent.width, rows);
        });
    });
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent,
                              cudaStream_t stream) {
    return call<Need::context>([&](const Driver& driver) {
        return fill_planes(pitchedDevPtr, extent, [&](CUdeviceptr start, size_t rows) {
            return invoke(driver.cuMemsetD2D8Async, start, pitchedDevPtr.pitch, value, extent.width, rows,
                          stream);
        });
    });
}
}
