// Entry points: occupancy, from the kernel's attributes and the device's (cuda/occupancy.h).
#include "platform.h"

using namespace front;

namespace {

struct Placed {
    CUdevice device;
    cuda::Multiprocessor machine;
    cuda::KernelNeeds kernel;
};

Placed placed(CUfunction function) {
    const CUdevice device = platform::require_context();
    return {device, platform::multiprocessor(device), platform::kernel_needs(function)};
}

}  // namespace

extern "C" {

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
    return call([&] {
        const Placed on = placed(func);
        require(numBlocks != nullptr && blockSize > 0);
        require((flags & ~CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) == 0);
        *numBlocks = cuda::blocks_at_once(on.machine, on.kernel, blockSize, dynamicSMemSize);
    });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize,
                                                                0);
}

// The smallest grid that fills the device, and the block with which most threads are active.
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit,
                                                   unsigned int flags) {
    return call([&] {
        const Placed on = placed(func);
        require(minGridSize != nullptr && blockSize != nullptr && blockSizeLimit >= 0);
        require((flags & ~CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) == 0);
        const auto shared_of = [&](int threads) {
            return blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(threads) : dynamicSMemSize;
        };
        const cuda::BlockChoice best = cuda::best_block(on.machine, on.kernel, blockSizeLimit, shared_of);
        *blockSize = best.threads;
        *minGridSize = best.blocks * platform::attribute(on.device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    });
}

CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                          size_t dynamicSMemSize, int blockSizeLimit) {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                                                     dynamicSMemSize, blockSizeLimit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks,
                                                 int blockSize) {
    return call([&] {
        const Placed on = placed(func);
        require(dynamicSmemSize != nullptr);
        const int64_t bytes = cuda::dynamic_shared_for(on.machine, on.kernel, numBlocks, blockSize);
        require(bytes >= 0);
        *dynamicSmemSize = static_cast<size_t>(bytes);
    });
}
}
