// Allocation: device, host, pitched, stream-ordered; and what a pointer is.
#include "forward.h"

using namespace cudart;

extern "C" {

cudaError_t cudaMalloc(void** devPtr, size_t size) {
    return call<Need::context>([&](const Driver& driver) {
        if (!devPtr) return CUDA_ERROR_INVALID_VALUE;
        // Nothing is an address too, that cudaFree takes.
        *devPtr = nullptr;
        return size ? invoke(driver.cuMemAlloc_v2, as<CUdeviceptr*>(devPtr), size) : CUDA_SUCCESS;
    });
}

cudaError_t cudaFree(void* devPtr) {
    // cudaFree(nullptr) is how programs start CUDA.
    if (!devPtr) return call<Need::context>([](const Driver&) { return cudaSuccess; });
    return call<Need::context_if_alive>(
        [&](const Driver& driver) { return invoke(driver.cuMemFree_v2, devPtr); });
}

cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
    return call<Need::context>([&](const Driver& driver) {
        if (!pHost) return CUDA_ERROR_INVALID_VALUE;
        *pHost = nullptr;
        return size ? invoke(driver.cuMemHostAlloc, pHost, size, flags) : CUDA_SUCCESS;
    });
}

cudaError_t cudaMallocHost(void** ptr, size_t size) {
    return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* ptr) {
    return call<Need::context_if_alive>(
        [&](const Driver& driver) { return ptr ? invoke(driver.cuMemFreeHost, ptr) : CUDA_SUCCESS; });
}

cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaStream_t hStream) {
    return call<Need::context>([&](const Driver& driver) {
        if (!devPtr) return CUDA_ERROR_INVALID_VALUE;
        *devPtr = nullptr;
        return size ? invoke(driver.cuMemAllocAsync, devPtr, size, hStream) : CUDA_SUCCESS;
    });
}

cudaError_t cudaMallocPitch(void** devPtr, size_t* pitch, size_t width, size_t height) {
    return call<Need::context>([&](const Driver& driver) {
        if (!devPtr || !pitch) return CUDA_ERROR_INVALID_VALUE;
        *devPtr = nullptr;
        *pitch = 0;
        if (width == 0 || height == 0) return CUDA_SUCCESS;
        constexpr unsigned kElement = 4;
        return invoke(driver.cuMemAllocPitch_v2, devPtr, pitch, width, height, kElement);
    });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pitchedDevPtr, cudaExtent extent) {
    if (!pitchedDevPtr) return finish(cudaErrorInvalidValue);
    size_t rows;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return finish(cudaErrorMemoryAllocation);
    *pitchedDevPtr = {nullptr, 0, extent.width, extent.height};
    return cudaMallocPitch(&pitchedDevPtr->ptr, &pitchedDevPtr->pitch, extent.width, rows);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
    return call<Need::context>([&](const Driver& driver) {
        if (!attributes) return CUDA_ERROR_INVALID_VALUE;
        unsigned type = 0;
        int ordinal = cudaInvalidDeviceId, managed = 0;
        void *on_device = nullptr, *on_host = nullptr;
        CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                        CU_POINTER_ATTRIBUTE_HOST_POINTER};
        void* answers[] = {&type, &ordinal, &managed, &on_device, &on_host};
        const CUresult result = invoke(driver.cuPointerGetAttributes, 5u, wanted, answers, ptr);
        if (result != CUDA_SUCCESS) return result;
        *attributes = {};
        attributes->device = type ? ordinal : cudaInvalidDeviceId;
        attributes->devicePointer = on_device;
        attributes->hostPointer = type ? on_host : const_cast<void*>(ptr);
        attributes->type = managed ? cudaMemoryTypeManaged : static_cast<cudaMemoryType>(type);
        return CUDA_SUCCESS;
    });
}
}
