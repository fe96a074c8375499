#include "attributes.h"

#include "engine.h"

namespace softgpu::driver {

std::optional<int> device_attribute(const Config& config, CUdevice_attribute attribute) {
    if (attribute < CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK || attribute >= CU_DEVICE_ATTRIBUTE_MAX) {
        return std::nullopt;
    }
    switch (attribute) {
        // Shapes of launches.
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
            return Limits::threads_per_block;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
            return 64;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
            return 0x7fffffff;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
            return 65535;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
            return 32;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
            return 16;
        // What a block or multiprocessor has.
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
            return 48 * 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
            return Limits::shared_bytes;
        case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
            return Limits::constant_bytes;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
            return 65536;
        // A multiprocessor is a thread of the host that runs blocks.
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            return static_cast<int>(config.threads);
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
            return kClockKHz;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
            return 64;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
            return 1 << 20;
        case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
            return 2;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            return kComputeMajor;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            return kComputeMinor;
        // Programs align to these although there are no textures or surfaces.
        case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
        case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
            return 512;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
            return 32;
        // What works.
        case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
        case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
        case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
        case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
            return 1;
        case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
            return -1;
        case CU_DEVICE_ATTRIBUTE_NUMA_ID:
            return -1;
        // The rest is what a software GPU does not have: textures, peers, clusters, interoperation.
        default:
            return 0;
    }
}

}  // namespace softgpu::driver
