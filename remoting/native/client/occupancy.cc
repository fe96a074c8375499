// Occupancy, from the kernel's attributes and the device's, as NVIDIA's occupancy calculator has it: what of
// the multiprocessor's threads, blocks, registers and shared memory runs out first.
#include <algorithm>

#include "call.h"
#include "context.h"
#include "launch.h"
#include "library.h"
#include "session.h"

namespace client {
namespace {

constexpr int kWarp = 32;
constexpr int kRegisterUnit = 256;       // registers are given to warps in units of this many
constexpr int kMostRegisters = 1 << 16;  // of a thread; whatever a server says

int round_up(int value, int to) {
    return (value + to - 1) / to * to;
}

struct Machine {
    const int32_t* attribute;
    int operator[](CUdevice_attribute which) const { return attribute[which]; }
};

int blocks_per_multiprocessor(const Machine& machine, const Kernel& kernel, int block,
                              size_t dynamic_shared) {
    const int warps = round_up(block, kWarp) / kWarp;
    int blocks = machine[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] / (warps * kWarp);
    if (const int most = machine[CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR]; most > 0) {
        blocks = std::min(blocks, most);
    }
    if (const int registers = kernel.attributes[CU_FUNC_ATTRIBUTE_NUM_REGS]; registers > 0) {
        const int per_warp = round_up(std::min(registers, kMostRegisters) * kWarp, kRegisterUnit);
        blocks = std::min(blocks,
                          machine[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] / per_warp / warps);
    }
    const int fixed = std::max(0, kernel.attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]) +
                      std::max(0, machine[CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK]);
    if (const size_t shared = static_cast<size_t>(fixed) + dynamic_shared; shared > 0) {
        const auto all =
            static_cast<size_t>(machine[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR]);
        blocks = static_cast<int>(std::min<size_t>(static_cast<size_t>(blocks), all / shared));
    }
    return std::max(0, blocks);
}

CUresult prepare(CUfunction func, const Kernel*& kernel, Machine& machine) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    kernel = kernel_of(func);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    machine.attribute = Session::get().devices()[context->device].attributes;
    return CUDA_SUCCESS;
}

int largest_block(const Machine& machine, const Kernel& kernel) {
    const int device = machine[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    const int own = kernel.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    return own > 0 ? std::min(device, own) : device;
}

}  // namespace

uint64_t blocks_at_once(const wire::DeviceSnapshot& device, const Kernel& kernel, int threads,
                        size_t dynamic_shared) {
    const Machine machine{device.attributes};
    if (machine[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] <= 0) return 0;
    const int each = blocks_per_multiprocessor(machine, kernel, threads, dynamic_shared);
    return static_cast<uint64_t>(each) *
           static_cast<uint64_t>(std::max(0, machine[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]));
}

}  // namespace client

using namespace client;

extern "C" {

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize) {
    const Kernel* kernel;
    Machine machine;
    if (CUresult error = prepare(func, kernel, machine)) return error;
    if (!numBlocks || blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
    *numBlocks = blockSize > largest_block(machine, *kernel)
                     ? 0
                     : blocks_per_multiprocessor(machine, *kernel, blockSize, dynamicSMemSize);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, func, blockSize, dynamicSMemSize);
}

// The smallest grid that fills the device, and the block with which most threads are active.
CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                          size_t dynamicSMemSize, int blockSizeLimit) {
    const Kernel* kernel;
    Machine machine;
    if (CUresult error = prepare(func, kernel, machine)) return error;
    if (!minGridSize || !blockSize || blockSizeLimit < 0) return CUDA_ERROR_INVALID_VALUE;
    int limit = largest_block(machine, *kernel);
    if (blockSizeLimit > 0) limit = std::min(limit, blockSizeLimit);
    int best_threads = 0;
    for (int block = round_up(limit, kWarp); block > 0; block -= kWarp) {
        const int size = std::min(block, limit);
        const size_t shared = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(size) : dynamicSMemSize;
        const int blocks = blocks_per_multiprocessor(machine, *kernel, size, shared);
        if (blocks * size <= best_threads) continue;
        best_threads = blocks * size;
        *blockSize = size;
        *minGridSize = blocks * machine[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    }
    return best_threads > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
    const Kernel* kernel;
    Machine machine;
    if (CUresult error = prepare(func, kernel, machine)) return error;
    if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (blocks_per_multiprocessor(machine, *kernel, blockSize, 0) < numBlocks)
        return CUDA_ERROR_INVALID_VALUE;
    const int share = machine[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] / numBlocks;
    const int most = std::min(share, machine[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK]);
    const int fixed = std::max(0, kernel->attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]);
    *dynamicSmemSize = static_cast<size_t>(std::max(0, most - fixed));
    return CUDA_SUCCESS;
}
}
