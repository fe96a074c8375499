#include "copy_shape.h"

#include "array.h"
#include "forward.h"

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

// Positions in an array count its elements.
Side side(const cudaPitchedPtr& memory, cudaArray_const_t array, const cudaPos& position, size_t element) {
    if (!array) return {memory.ptr, memory.pitch, memory.ysize, position.x, position.y, position.z};
    return {nullptr, 0, 0, position.x * element, position.y, position.z, array};
}

// The size of what a copy counts: 1 where no array is.
cudaError_t element_of_copy(const Driver& driver, cudaArray_const_t from, cudaArray_const_t to,
                            size_t& element) {
    element = 0;
    for (const cudaArray_const_t array : {from, to}) {
        if (!array) continue;
        size_t its = 0;
        if (CUresult error = element_of(driver, array, its)) return translated(error);
        if (element && element != its) return cudaErrorInvalidValue;
        element = its;
    }
    element = element ? element : 1;
    return cudaSuccess;
}

// Beyond any array, where the product would not fit; the driver refuses it.
bool fits(size_t count, size_t element) {
    return count <= SIZE_MAX / element;
}

}  // namespace

cudaError_t shape_of(const Driver& driver, const cudaMemcpy3DParms& given, Shape& shape) {
    if ((given.srcArray && given.srcPtr.ptr) || (given.dstArray && given.dstPtr.ptr))
        return cudaErrorInvalidValue;
    size_t element = 1;
    if (cudaError_t error = element_of_copy(driver, given.srcArray, given.dstArray, element);
        error != cudaSuccess) {
        return error;
    }
    const auto& [width, height, depth] = given.extent;
    if (!fits(width, element) || !fits(given.srcPos.x, element) || !fits(given.dstPos.x, element))
        return cudaErrorInvalidValue;
    shape = {side(given.srcPtr, given.srcArray, given.srcPos, element),
             side(given.dstPtr, given.dstArray, given.dstPos, element),
             width * element,
             height,
             depth,
             given.kind};
    return look_at(shape);
}

cudaError_t look_at(const Shape& shape) {
    const cudaMemcpyKind kind = shape.kind;
    if (static_cast<unsigned>(kind) > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (shape.from.array && (kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice))
        return cudaErrorInvalidMemcpyDirection;
    if (shape.to.array && (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost))
        return cudaErrorInvalidMemcpyDirection;
    for (const Side* side : {&shape.from, &shape.to}) {
        if (!shape.empty() && !side->array && shape.width > side->pitch) return cudaErrorInvalidPitchValue;
    }
    return cudaSuccess;
}

Shape row(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return {{from, bytes, 1, 0, 0, 0}, {to, bytes, 1, 0, 0, 0}, bytes, 1, 1, kind};
}

CUDA_MEMCPY3D driver_copy(const Shape& shape) {
    CUDA_MEMCPY3D copy = {};
    const Side &from = shape.from, &to = shape.to;
    copy.srcMemoryType = from.array ? CU_MEMORYTYPE_ARRAY : memory_of(shape.kind, true);
    copy.dstMemoryType = to.array ? CU_MEMORYTYPE_ARRAY : memory_of(shape.kind, false);
    // The driver looks at the one that the type names.
    copy.srcArray = as<CUarray>(from.array);
    copy.srcHost = from.start;
    copy.srcDevice = reinterpret_cast<CUdeviceptr>(from.start);
    copy.dstArray = as<CUarray>(to.array);
    copy.dstHost = const_cast<void*>(to.start);
    copy.dstDevice = reinterpret_cast<CUdeviceptr>(to.start);
    copy.srcXInBytes = from.x, copy.srcY = from.y, copy.srcZ = from.z;
    copy.dstXInBytes = to.x, copy.dstY = to.y, copy.dstZ = to.z;
    copy.srcPitch = from.pitch, copy.srcHeight = from.height;
    copy.dstPitch = to.pitch, copy.dstHeight = to.height;
    copy.WidthInBytes = shape.width, copy.Height = shape.height, copy.Depth = shape.depth;
    return copy;
}

CUresult runtime_copy(const Driver& driver, const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms& parms) {
    const bool from_array = copy.srcMemoryType == CU_MEMORYTYPE_ARRAY;
    const bool to_array = copy.dstMemoryType == CU_MEMORYTYPE_ARRAY;
    size_t element = 1;
    if (from_array || to_array) {
        const CUarray one = from_array ? copy.srcArray : copy.dstArray;
        if (CUresult error = element_of(driver, as<cudaArray_t>(one), element)) return error;
    }
    const auto pitched = [&](CUmemorytype type, const void* host, CUdeviceptr device, size_t pitch,
                             size_t height) {
        if (type == CU_MEMORYTYPE_ARRAY) return cudaPitchedPtr{};
        void* start = type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
        return cudaPitchedPtr{start, pitch, copy.WidthInBytes, height};
    };
    const auto position = [&](bool in_array, size_t x, size_t y, size_t z) {
        return cudaPos{in_array ? x / element : x, y, z};
    };
    parms = {};
    if (from_array) parms.srcArray = as<cudaArray_t>(copy.srcArray);
    if (to_array) parms.dstArray = as<cudaArray_t>(copy.dstArray);
    parms.srcPtr = pitched(copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcPitch, copy.srcHeight);
    parms.dstPtr = pitched(copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstPitch, copy.dstHeight);
    parms.srcPos = position(from_array, copy.srcXInBytes, copy.srcY, copy.srcZ);
    parms.dstPos = position(to_array, copy.dstXInBytes, copy.dstY, copy.dstZ);
    parms.extent = {copy.WidthInBytes / element, copy.Height, copy.Depth};
    parms.kind = kind_of(copy.srcMemoryType, copy.dstMemoryType);
    return CUDA_SUCCESS;
}

}  // namespace cudart
