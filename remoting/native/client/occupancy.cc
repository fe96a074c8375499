// Occupancy, from the kernel's attributes and the device's (codegen/occupancy.h).
#include "occupancy.h"

#include "call.h"
#include "context.h"
#include "launch.h"
#include "library.h"
#include "session.h"

namespace client {
namespace {

cuda::Multiprocessor machine_of(const wire::DeviceSnapshot& device) {
    const int32_t* attributes = device.attributes;
    return {.major = attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR],
            .minor = attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR],
            .threads = attributes[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR],
            .blocks = attributes[CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR],
            .block_threads = attributes[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
            .registers = attributes[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR],
            .block_registers = attributes[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
            .shared = attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR],
            .reserved_shared = attributes[CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK]};
}

cuda::KernelNeeds needs_of(const Kernel& kernel, const cuda::Multiprocessor& machine) {
    const int threads = kernel.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    return {.threads = threads > 0 ? threads : machine.block_threads,
            .registers = kernel.attributes[CU_FUNC_ATTRIBUTE_NUM_REGS],
            .static_shared = kernel.attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES],
            .most_dynamic_shared = kernel.attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES]};
}

struct Asked {
    cuda::Multiprocessor machine;
    cuda::KernelNeeds kernel;
    int multiprocessors = 0;
};

CUresult prepare(CUfunction func, Asked& asked) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    const Kernel* kernel = kernel_of(func);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    const wire::DeviceSnapshot& device = Session::get().devices()[context->device];
    asked.machine = machine_of(device);
    asked.kernel = needs_of(*kernel, asked.machine);
    asked.multiprocessors = device.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    return CUDA_SUCCESS;
}

}  // namespace

uint64_t blocks_at_once(const wire::DeviceSnapshot& device, const Kernel& kernel, int threads,
                        size_t dynamic_shared) {
    const cuda::Multiprocessor machine = machine_of(device);
    if (machine.threads <= 0) return 0;
    const int each = cuda::blocks_at_once(machine, needs_of(kernel, machine), threads, dynamic_shared);
    const int multiprocessors = device.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    return static_cast<uint64_t>(each) * static_cast<uint64_t>(std::max(0, multiprocessors));
}

}  // namespace client

using namespace client;

extern "C" {

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
    Asked asked;
    if (CUresult error = prepare(func, asked)) return error;
    const bool known = (flags & ~CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) == 0;
    if (!numBlocks || blockSize <= 0 || !known) return CUDA_ERROR_INVALID_VALUE;
    *numBlocks = cuda::blocks_at_once(asked.machine, asked.kernel, blockSize, dynamicSMemSize);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize,
                                                                0);
}

// The smallest grid that fills the device, and the block with which most threads are active.
CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                          size_t dynamicSMemSize, int blockSizeLimit) {
    Asked asked;
    if (CUresult error = prepare(func, asked)) return error;
    if (!minGridSize || !blockSize || blockSizeLimit < 0) return CUDA_ERROR_INVALID_VALUE;
    const auto shared_of = [&](int threads) {
        return blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(threads) : dynamicSMemSize;
    };
    const cuda::BlockChoice best = cuda::best_block(asked.machine, asked.kernel, blockSizeLimit, shared_of);
    *blockSize = best.threads;
    *minGridSize = best.blocks * asked.multiprocessors;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit,
                                                   unsigned int flags) {
    return cuOccupancyMaxPotentialBlockSize(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                                            dynamicSMemSize, blockSizeLimit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks,
                                                 int blockSize) {
    Asked asked;
    if (CUresult error = prepare(func, asked)) return error;
    if (!dynamicSmemSize) return CUDA_ERROR_INVALID_VALUE;
    const int64_t bytes = cuda::dynamic_shared_for(asked.machine, asked.kernel, numBlocks, blockSize);
    if (bytes < 0) return CUDA_ERROR_INVALID_VALUE;
    *dynamicSmemSize = static_cast<size_t>(bytes);
    return CUDA_SUCCESS;
}
}
