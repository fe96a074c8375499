#include "shared_memory.h"

#include <algorithm>
#include <cstring>

#include "call.h"
#include "calls_wire.h"

namespace client {
namespace {

CUresult look(Call& call, uint64_t address, std::byte* to, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        const auto chunk = static_cast<uint32_t>(std::min<uint64_t>(bytes - done, wire::kChunk));
        const wire::MemoryLook message{address + done, chunk, 0};
        if (CUresult error = call.ask(wire::kOpMemoryLook, 0, &message, sizeof message, to + done, chunk))
            return error;
        done += chunk;
    }
    return CUDA_SUCCESS;
}

CUresult give(Call& call, uint64_t address, const std::byte* from, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        const auto chunk = static_cast<uint32_t>(std::min<uint64_t>(bytes - done, wire::kChunk));
        wire::MemoryLook message{address + done, chunk, 1};
        const iovec parts[2] = {{&message, sizeof message}, {const_cast<std::byte*>(from) + done, chunk}};
        std::span<const std::byte> nothing;
        if (CUresult error = call.ask_parts(wire::kOpMemoryLook, 0, parts, 2, nothing)) return error;
        done += chunk;
    }
    return CUDA_SUCCESS;
}

// The next run of bytes that differ, from `start` on: its bounds; both `bytes` when there is none.
std::pair<uint64_t, uint64_t> next_change(const std::byte* now, const std::byte* before, uint64_t start,
                                          uint64_t bytes) {
    constexpr uint64_t kBlock = 4096;
    while (start < bytes) {
        const uint64_t block = std::min(kBlock, bytes - start);
        if (std::memcmp(now + start, before + start, block) != 0) break;
        start += block;
    }
    while (start < bytes && now[start] == before[start]) ++start;
    uint64_t stop = start;
    while (stop < bytes && now[stop] != before[stop]) ++stop;
    return {start, stop};
}

}  // namespace

SharedMemory& SharedMemory::get() {
    static auto* shared = new SharedMemory;
    return *shared;
}

void SharedMemory::add(void* host, uint64_t device_address, uint64_t bytes, uint8_t device) {
    const std::scoped_lock lock(moving_, mutex_);
    regions_.push_back({host, device_address, bytes, device});
    count_.store(regions_.size(), std::memory_order_release);
}

void SharedMemory::remove(void* host) {
    const std::scoped_lock lock(moving_, mutex_);
    std::erase_if(regions_, [host](const Region& region) { return region.host == host; });
    count_.store(regions_.size(), std::memory_order_release);
}

void SharedMemory::to_device(Call& call) {
    const std::lock_guard moving(moving_);
    for (Region& region : regions_) {
        if (region.device != call.device()) continue;
        if (region.on_device) {
            const std::lock_guard lock(mutex_);
            send_changes(call, region);
            continue;
        }
        // A failure is the session's, and is returned by the call that follows.
        if (call.copy_in(region.device_address, region.host, region.bytes, 0, true) != CUDA_SUCCESS) return;
        const std::lock_guard lock(mutex_);
        region.on_device = true;
    }
}

void SharedMemory::to_device_for(Call& call, uint64_t device_address) {
    if (!any()) return;
    {
        const std::lock_guard lock(mutex_);
        const bool shared = std::any_of(regions_.begin(), regions_.end(), [&](const Region& region) {
            return device_address - region.device_address < region.bytes;
        });
        if (!shared) return;
    }
    to_device(call);
}

void SharedMemory::to_host(Call& call) {
    const std::lock_guard moving(moving_);
    auto theirs = [&](const Region& region) { return region.on_device && region.device == call.device(); };
    if (std::none_of(regions_.begin(), regions_.end(), theirs)) return;
    if (call.ask(wire::kOp_cuCtxSynchronize, 0, nullptr, 0, nullptr, 0) != CUDA_SUCCESS) return;
    for (Region& region : regions_) {
        if (!theirs(region)) continue;
        {
            const std::lock_guard lock(mutex_);
            send_changes(call, region);
        }
        if (call.copy_out(region.host, region.device_address, region.bytes, 0) != CUDA_SUCCESS) return;
        const std::lock_guard lock(mutex_);
        region.on_device = false;
    }
}

// With mutex_ held; a region that the device has.
void SharedMemory::show(Call& call, Region& region) {
    send_changes(call, region);
    auto* host = static_cast<std::byte*>(region.host);
    if (look(call, region.device_address, host, region.bytes) == CUDA_SUCCESS)
        region.shown.assign(host, host + region.bytes);
}

// With mutex_ held.
void SharedMemory::send_changes(Call& call, Region& region) {
    const std::vector<std::byte> shown = std::move(region.shown);
    region.shown.clear();
    const auto* host = static_cast<const std::byte*>(region.host);
    for (uint64_t at = 0; at < shown.size();) {
        const auto [start, stop] = next_change(host, shown.data(), at, shown.size());
        if (start < stop && give(call, region.device_address + start, host + start, stop - start)) return;
        at = stop;
    }
}

void SharedMemory::show(Call& call, bool everywhere) {
    const std::lock_guard lock(mutex_);
    for (Region& region : regions_) {
        if (!region.on_device || (!everywhere && region.device != call.device())) continue;
        call.use_device(region.device);
        show(call, region);
    }
}

void SharedMemory::take_changes(Call& call) {
    const std::lock_guard lock(mutex_);
    for (Region& region : regions_) {
        call.use_device(region.device);
        send_changes(call, region);
    }
}

void SharedMemory::forget(uint64_t device_address) {
    const std::scoped_lock lock(moving_, mutex_);
    std::erase_if(regions_, [&](const Region& region) { return region.device_address == device_address; });
    count_.store(regions_.size(), std::memory_order_release);
}

void SharedMemory::forget_life() {
    const std::scoped_lock lock(moving_, mutex_);
    regions_.clear();
    count_.store(0, std::memory_order_release);
}

}  // namespace client
