#include "shared_memory.h"

#include <algorithm>

#include "call.h"
#include "calls_wire.h"

namespace client {

SharedMemory& SharedMemory::get() {
    static auto* shared = new SharedMemory;
    return *shared;
}

void SharedMemory::add(void* host, uint64_t device_address, uint64_t bytes, uint8_t device) {
    const std::lock_guard lock(mutex_);
    regions_.push_back({host, device_address, bytes, device});
    count_.store(regions_.size(), std::memory_order_release);
}

void SharedMemory::remove(void* host) {
    const std::lock_guard lock(mutex_);
    std::erase_if(regions_, [host](const Region& region) { return region.host == host; });
    count_.store(regions_.size(), std::memory_order_release);
}

void SharedMemory::to_device(Call& call) {
    const std::lock_guard lock(mutex_);
    for (Region& region : regions_) {
        if (region.on_device || region.device != call.device()) continue;
        // A failure is the session's, and is returned by the call that follows.
        if (call.copy_in(region.device_address, region.host, region.bytes, 0, true) != CUDA_SUCCESS) return;
        region.on_device = true;
    }
}

void SharedMemory::to_host(Call& call) {
    const std::lock_guard lock(mutex_);
    auto theirs = [&](const Region& region) { return region.on_device && region.device == call.device(); };
    if (std::none_of(regions_.begin(), regions_.end(), theirs)) return;
    // The call waited for a stream or an event; other streams may still be writing.
    if (call.ask(wire::kOp_cuCtxSynchronize, 0, nullptr, 0, nullptr, 0) != CUDA_SUCCESS) return;
    for (Region& region : regions_) {
        if (!theirs(region)) continue;
        if (call.copy_out(region.host, region.device_address, region.bytes, 0) != CUDA_SUCCESS) return;
        region.on_device = false;
    }
}

void SharedMemory::forget(uint8_t device) {
    const std::lock_guard lock(mutex_);
    std::erase_if(regions_, [device](const Region& region) { return region.device == device; });
    count_.store(regions_.size(), std::memory_order_release);
}

}  // namespace client
