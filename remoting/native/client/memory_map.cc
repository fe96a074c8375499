#include "memory_map.h"

#include <mutex>

namespace client {

MemoryMap& MemoryMap::get() {
    static auto* map = new MemoryMap;
    return *map;
}

void MemoryMap::add(Memory memory) {
    const std::unique_lock lock(mutex_);
    memory.id = ++last_id_;
    by_base_[memory.base] = memory;
}

std::optional<Memory> MemoryMap::find(uint64_t address) const {
    const std::shared_lock lock(mutex_);
    auto after = by_base_.upper_bound(address);
    if (after == by_base_.begin()) return std::nullopt;
    const Memory& memory = std::prev(after)->second;
    if (address - memory.base >= memory.bytes) return std::nullopt;
    return memory;
}

std::optional<Memory> MemoryMap::remove(uint64_t base) {
    const std::unique_lock lock(mutex_);
    auto found = by_base_.find(base);
    if (found == by_base_.end() || found->second.global) return std::nullopt;
    const Memory memory = found->second;
    by_base_.erase(found);
    return memory;
}

void MemoryMap::set_device_address(uint64_t base, uint64_t device_address) {
    const std::unique_lock lock(mutex_);
    auto found = by_base_.find(base);
    if (found != by_base_.end()) found->second.device_address = device_address;
}

void MemoryMap::forget_device(uint8_t device) {
    const std::unique_lock lock(mutex_);
    std::erase_if(by_base_, [device](const auto& entry) {
        return entry.second.device == device && entry.second.kind != Memory::Kind::pinned;
    });
}

}  // namespace client
