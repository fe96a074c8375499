#include "copy_shape.h"

namespace cudart {
namespace {

CUmemorytype memory_of(cudaMemcpyKind kind, bool source) {
    switch (kind) {
        case cudaMemcpyHostToHost:
            return CU_MEMORYTYPE_HOST;
        case cudaMemcpyHostToDevice:
            return source ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        case cudaMemcpyDeviceToHost:
            return source ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        case cudaMemcpyDeviceToDevice:
            return CU_MEMORYTYPE_DEVICE;
        default:
            return CU_MEMORYTYPE_UNIFIED;
    }
}

cudaMemcpyKind kind_of(CUmemorytype from, CUmemorytype to) {
    if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
    const bool host_from = from == CU_MEMORYTYPE_HOST, host_to = to == CU_MEMORYTYPE_HOST;
    if (host_from) return host_to ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
    return host_to ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

Side side(const cudaPitchedPtr& memory, const cudaPos& position) {
    return {memory.ptr, memory.pitch, memory.ysize, position.x, position.y, position.z};
}

}  // namespace

cudaError_t shape_of(const cudaMemcpy3DParms& given, Shape& shape) {
    if (given.srcArray || given.dstArray) return cudaErrorNotSupported;
    if (static_cast<unsigned>(given.kind) > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    const auto& [width, height, depth] = given.extent;
    shape = {
        side(given.srcPtr, given.srcPos), side(given.dstPtr, given.dstPos), width, height, depth, given.kind};
    const bool fits = width <= shape.from.pitch && width <= shape.to.pitch;
    return fits || shape.empty() ? cudaSuccess : cudaErrorInvalidPitchValue;
}

Shape row(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return {{from, bytes, 1, 0, 0, 0}, {to, bytes, 1, 0, 0, 0}, bytes, 1, 1, kind};
}

CUDA_MEMCPY3D driver_copy(const Shape& shape) {
    CUDA_MEMCPY3D copy = {};
    const Side &from = shape.from, &to = shape.to;
    copy.srcMemoryType = memory_of(shape.kind, true);
    copy.dstMemoryType = memory_of(shape.kind, false);
    // The driver looks at the one that the type names.
    copy.srcHost = from.start;
    copy.srcDevice = reinterpret_cast<CUdeviceptr>(from.start);
    copy.dstHost = const_cast<void*>(to.start);
    copy.dstDevice = reinterpret_cast<CUdeviceptr>(to.start);
    copy.srcXInBytes = from.x, copy.srcY = from.y, copy.srcZ = from.z;
    copy.dstXInBytes = to.x, copy.dstY = to.y, copy.dstZ = to.z;
    copy.srcPitch = from.pitch, copy.srcHeight = from.height;
    copy.dstPitch = to.pitch, copy.dstHeight = to.height;
    copy.WidthInBytes = shape.width, copy.Height = shape.height, copy.Depth = shape.depth;
    return copy;
}

cudaMemcpy3DParms runtime_copy(const CUDA_MEMCPY3D& copy) {
    const auto start = [](CUmemorytype type, const void* host, CUdeviceptr device) {
        return type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
    };
    cudaMemcpy3DParms parms = {};
    parms.srcPtr = {start(copy.srcMemoryType, copy.srcHost, copy.srcDevice), copy.srcPitch, copy.WidthInBytes,
                    copy.srcHeight};
    parms.dstPtr = {start(copy.dstMemoryType, copy.dstHost, copy.dstDevice), copy.dstPitch, copy.WidthInBytes,
                    copy.dstHeight};
    parms.srcPos = {copy.srcXInBytes, copy.srcY, copy.srcZ};
    parms.dstPos = {copy.dstXInBytes, copy.dstY, copy.dstZ};
    parms.extent = {copy.WidthInBytes, copy.Height, copy.Depth};
    parms.kind = kind_of(copy.srcMemoryType, copy.dstMemoryType);
    return parms;
}

}  // namespace cudart
