#include "local_memory.h"

#include <string>

#include "handlers.h"

namespace worker {

uint64_t resident_threads(const Device& device) {
    const auto& attributes = device.snapshot.attributes;
    return times(static_cast<uint64_t>(attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]),
                 static_cast<uint64_t>(attributes[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR]));
}

CUresult LocalMemory::make_room(Context& context, const LoadedKernel& kernel) {
    const auto& largest = largest_[context.device()];
    if (kernel.local_bytes <= largest.load(std::memory_order_relaxed) || context.driver().software)
        return CUDA_SUCCESS;
    return grow(context, kernel.local_bytes);
}

CUresult LocalMemory::grow(Context& context, uint32_t frame) {
    Worker& worker = context.worker();
    const uint8_t device = context.device();
    const std::lock_guard lock(mutex_);
    const uint32_t before = largest_[device].load();
    if (frame <= before) return CUDA_SUCCESS;
    const uint64_t threads = resident_threads(worker.devices[device]);
    const uint64_t more = times(frame - before, threads);
    if (worker.room.take(context.session(), device, more)) {
        largest_[device].store(frame);
        return CUDA_SUCCESS;
    }
    context.session().notices.add(
        wire::NoticeKind::lines,
        "a kernel needs " + std::to_string(frame) + " bytes of local memory a thread, for " +
            std::to_string(threads) +
            " threads that this GPU can run at once: " + std::to_string(times(frame, threads) >> 20) +
            " MiB of the slice, which has " + std::to_string(worker.memory.left(device) >> 20) +
            " MiB left; make its arrays smaller, keep them in shared memory, or ask for a larger slice");
    return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace worker
