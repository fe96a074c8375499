// What a server's GPU has room for, by its attributes and the kernel's (cuda/occupancy.h).
#include "occupancy.h"

#include <algorithm>
#include <climits>

#include "launch.h"

namespace client {

cuda::Multiprocessor multiprocessor(const wire::DeviceSnapshot& device) {
    return cuda::multiprocessor([&](CUdevice_attribute attribute) { return device.attributes[attribute]; });
}

// A server that does not say how many threads a block may have leaves it to the device.
cuda::KernelNeeds needs_of(const Kernel& kernel) {
    const int threads = kernel.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    return {.threads = threads > 0 ? threads : INT_MAX,
            .registers = kernel.attributes[CU_FUNC_ATTRIBUTE_NUM_REGS],
            .static_shared = kernel.attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES],
            .most_dynamic_shared = kernel.attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES]};
}

uint64_t blocks_at_once(const wire::DeviceSnapshot& device, const Kernel& kernel, int threads,
                        size_t dynamic_shared) {
    const cuda::Multiprocessor machine = multiprocessor(device);
    if (machine.threads <= 0) return 0;
    const int each = cuda::blocks_at_once(machine, needs_of(kernel), threads, dynamic_shared);
    const int multiprocessors = device.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    return static_cast<uint64_t>(each) * static_cast<uint64_t>(std::max(0, multiprocessors));
}

}  // namespace client
