// cudaDeviceProp, from the driver's attributes.
#include <cstddef>
#include <cstring>

#include "forward.h"

using namespace cudart;

namespace {

struct IntField {
    int cudaDeviceProp::* field;
    int attribute;
};
struct SizeField {
    size_t cudaDeviceProp::* field;
    int attribute;
};
struct ArrayField {
    size_t offset;
    int count;
    int attributes[3];
};

#define INT(field, attribute) {&cudaDeviceProp::field, CU_DEVICE_ATTRIBUTE_##attribute}
#define ARRAY(field, count, ...)                  \
    {                                             \
        offsetof(cudaDeviceProp, field), count, { \
            __VA_ARGS__                           \
        }                                         \
    }
#define A(attribute) CU_DEVICE_ATTRIBUTE_##attribute

constexpr SizeField kSizes[] = {
    INT(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK),
    INT(memPitch, MAX_PITCH),
    INT(totalConstMem, TOTAL_CONSTANT_MEMORY),
    INT(textureAlignment, TEXTURE_ALIGNMENT),
    INT(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT),
    INT(surfaceAlignment, SURFACE_ALIGNMENT),
    INT(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    INT(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    INT(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK),
};

constexpr IntField kInts[] = {
    INT(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
    INT(warpSize, WARP_SIZE),
    INT(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
    INT(major, COMPUTE_CAPABILITY_MAJOR),
    INT(minor, COMPUTE_CAPABILITY_MINOR),
    INT(multiProcessorCount, MULTIPROCESSOR_COUNT),
    INT(integrated, INTEGRATED),
    INT(canMapHostMemory, CAN_MAP_HOST_MEMORY),
    INT(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH),
    INT(maxTexture1DMipmap, MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH),
    INT(maxTextureCubemap, MAXIMUM_TEXTURECUBEMAP_WIDTH),
    INT(maxSurface1D, MAXIMUM_SURFACE1D_WIDTH),
    INT(maxSurfaceCubemap, MAXIMUM_SURFACECUBEMAP_WIDTH),
    INT(concurrentKernels, CONCURRENT_KERNELS),
    INT(ECCEnabled, ECC_ENABLED),
    INT(pciBusID, PCI_BUS_ID),
    INT(pciDeviceID, PCI_DEVICE_ID),
    INT(pciDomainID, PCI_DOMAIN_ID),
    INT(tccDriver, TCC_DRIVER),
    INT(asyncEngineCount, ASYNC_ENGINE_COUNT),
    INT(unifiedAddressing, UNIFIED_ADDRESSING),
    INT(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
    INT(l2CacheSize, L2_CACHE_SIZE),
    INT(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE),
    INT(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
    INT(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
    INT(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED),
    INT(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED),
    INT(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
    INT(managedMemory, MANAGED_MEMORY),
    INT(isMultiGpuBoard, MULTI_GPU_BOARD),
    INT(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID),
    INT(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED),
    INT(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS),
    INT(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
    INT(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED),
    INT(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
    INT(cooperativeLaunch, COOPERATIVE_LAUNCH),
    INT(pageableMemoryAccessUsesHostPageTables, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
    INT(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
    INT(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
    INT(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE),
    INT(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
    INT(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED),
    INT(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED),
    INT(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
    INT(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
    INT(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED),
    INT(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING),
    INT(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED),
    INT(ipcEventSupported, IPC_EVENT_SUPPORTED),
    INT(clusterLaunch, CLUSTER_LAUNCH),
    INT(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS),
#if CUDART_VERSION >= 13000
    INT(deviceNumaConfig, NUMA_CONFIG),
    INT(deviceNumaId, NUMA_ID),
    INT(mpsEnabled, MPS_ENABLED),
    INT(hostNumaId, HOST_NUMA_ID),
    INT(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED),
#else
    INT(clockRate, CLOCK_RATE),
    INT(deviceOverlap, GPU_OVERLAP),
    INT(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT),
    INT(computeMode, COMPUTE_MODE),
    INT(maxTexture1DLinear, MAXIMUM_TEXTURE1D_LINEAR_WIDTH),
    INT(memoryClockRate, MEMORY_CLOCK_RATE),
    INT(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO),
    INT(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH),
#endif
};

constexpr ArrayField kArrays[] = {
    ARRAY(maxThreadsDim, 3, A(MAX_BLOCK_DIM_X), A(MAX_BLOCK_DIM_Y), A(MAX_BLOCK_DIM_Z)),
    ARRAY(maxGridSize, 3, A(MAX_GRID_DIM_X), A(MAX_GRID_DIM_Y), A(MAX_GRID_DIM_Z)),
    ARRAY(maxTexture2D, 2, A(MAXIMUM_TEXTURE2D_WIDTH), A(MAXIMUM_TEXTURE2D_HEIGHT)),
    ARRAY(maxTexture2DMipmap, 2, A(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH), A(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT)),
    ARRAY(maxTexture2DLinear, 3, A(MAXIMUM_TEXTURE2D_LINEAR_WIDTH), A(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT),
          A(MAXIMUM_TEXTURE2D_LINEAR_PITCH)),
    ARRAY(maxTexture2DGather, 2, A(MAXIMUM_TEXTURE2D_GATHER_WIDTH), A(MAXIMUM_TEXTURE2D_GATHER_HEIGHT)),
    ARRAY(maxTexture3D, 3, A(MAXIMUM_TEXTURE3D_WIDTH), A(MAXIMUM_TEXTURE3D_HEIGHT),
          A(MAXIMUM_TEXTURE3D_DEPTH)),
    ARRAY(maxTexture3DAlt, 3, A(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE), A(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE),
          A(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE)),
    ARRAY(maxTexture1DLayered, 2, A(MAXIMUM_TEXTURE1D_LAYERED_WIDTH), A(MAXIMUM_TEXTURE1D_LAYERED_LAYERS)),
    ARRAY(maxTexture2DLayered, 3, A(MAXIMUM_TEXTURE2D_LAYERED_WIDTH), A(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT),
          A(MAXIMUM_TEXTURE2D_LAYERED_LAYERS)),
    ARRAY(maxTextureCubemapLayered, 2, A(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH),
          A(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS)),
    ARRAY(maxSurface2D, 2, A(MAXIMUM_SURFACE2D_WIDTH), A(MAXIMUM_SURFACE2D_HEIGHT)),
    ARRAY(maxSurface3D, 3, A(MAXIMUM_SURFACE3D_WIDTH), A(MAXIMUM_SURFACE3D_HEIGHT),
          A(MAXIMUM_SURFACE3D_DEPTH)),
    ARRAY(maxSurface1DLayered, 2, A(MAXIMUM_SURFACE1D_LAYERED_WIDTH), A(MAXIMUM_SURFACE1D_LAYERED_LAYERS)),
    ARRAY(maxSurface2DLayered, 3, A(MAXIMUM_SURFACE2D_LAYERED_WIDTH), A(MAXIMUM_SURFACE2D_LAYERED_HEIGHT),
          A(MAXIMUM_SURFACE2D_LAYERED_LAYERS)),
    ARRAY(maxSurfaceCubemapLayered, 2, A(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH),
          A(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS)),
};

#undef INT
#undef ARRAY
#undef A

// What an older driver does not know is 0.
int attribute(const Driver& driver, int which, int device) {
    int value = 0;
    invoke(driver.cuDeviceGetAttribute, &value, which, device);
    return value;
}

CUresult properties(const Driver& driver, cudaDeviceProp& prop, int device) {
    CUdevice handle;
    if (CUresult result = driver.cuDeviceGet(&handle, device); result != CUDA_SUCCESS) return result;
    prop = {};
    CUresult result = invoke(driver.cuDeviceGetName, prop.name, sizeof prop.name, handle);
    if (result == CUDA_SUCCESS) result = invoke(driver.cuDeviceTotalMem_v2, &prop.totalGlobalMem, handle);
    if (result != CUDA_SUCCESS) return result;
    invoke(driver.cuDeviceGetUuid_v2, &prop.uuid, handle);
    for (const auto& [field, which] : kSizes) prop.*field = attribute(driver, which, handle);
    for (const auto& [field, which] : kInts) prop.*field = attribute(driver, which, handle);
    for (const ArrayField& array : kArrays) {
        int values[3];
        for (int i = 0; i < array.count; ++i) values[i] = attribute(driver, array.attributes[i], handle);
        std::memcpy(reinterpret_cast<char*>(&prop) + array.offset, values, array.count * sizeof(int));
    }
    prop.gpuDirectRDMAFlushWritesOptions =
        attribute(driver, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, handle);
    prop.memoryPoolSupportedHandleTypes =
        attribute(driver, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, handle);
#if CUDART_VERSION >= 13000
    prop.gpuPciDeviceID = attribute(driver, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID, handle);
    prop.gpuPciSubsystemID = attribute(driver, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID, handle);
#endif
    return CUDA_SUCCESS;
}

// The first `bytes` of the structure: what a caller of an older layout, which is a part of it, has room for.
cudaError_t answer(cudaDeviceProp* prop, int device, size_t bytes) {
    return call<Need::driver>([&](const Driver& driver) {
        if (!prop) return CUDA_ERROR_INVALID_VALUE;
        cudaDeviceProp all;
        const CUresult result = properties(driver, all, device);
        if (result == CUDA_SUCCESS) std::memcpy(static_cast<void*>(prop), &all, bytes);
        return result;
    });
}

// How well a device serves a wish: each field that the program has set and the device reaches.
int matches(const cudaDeviceProp& device, const cudaDeviceProp& wish) {
    int score = 0;
    const auto reaches = [&](auto field) { score += wish.*field != 0 && device.*field >= wish.*field; };
    reaches(&cudaDeviceProp::major);
    reaches(&cudaDeviceProp::minor);
    reaches(&cudaDeviceProp::totalGlobalMem);
    reaches(&cudaDeviceProp::multiProcessorCount);
    reaches(&cudaDeviceProp::sharedMemPerBlock);
    reaches(&cudaDeviceProp::regsPerBlock);
    reaches(&cudaDeviceProp::maxThreadsPerBlock);
    return score;
}

}  // namespace

extern "C" {

#if CUDART_VERSION >= 13000
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
    return answer(prop, device, sizeof *prop);
}
#else
// Programs built with CUDA 11 and before; the layout of 12 begins with theirs.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
    return answer(prop, device, offsetof(cudaDeviceProp, hostRegisterSupported));
}

cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* prop, int device) {
    return answer(prop, device, sizeof *prop);
}
#endif

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* prop) {
    return call<Need::driver>([&](const Driver& driver) {
        int count = 0;
        if (!device || !prop) return CUDA_ERROR_INVALID_VALUE;
        CUresult result = invoke(driver.cuDeviceGetCount, &count);
        int best = -1;
        for (int i = 0; i < count && result == CUDA_SUCCESS; ++i) {
            cudaDeviceProp found;
            result = properties(driver, found, i);
            if (result == CUDA_SUCCESS && matches(found, *prop) > best) {
                best = matches(found, *prop);
                *device = i;
            }
        }
        return result;
    });
}
}
