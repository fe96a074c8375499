#include "memory_map.h"

#include <algorithm>
#include <mutex>

#include "context.h"

namespace client {

MemoryMap& MemoryMap::get() {
    static auto* map = new MemoryMap;
    return *map;
}

void MemoryMap::add(Memory memory) {
    const uint64_t context = current_context_id();
    const std::unique_lock lock(mutex_);
    memory.id = ++last_id_;
    memory.context = context;
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

// Whether copies may touch it.
bool MemoryMap::reachable(const Memory& memory) {
    return memory.kind != Memory::Kind::pinned && (!memory.mapping || (memory.access >> memory.device & 1));
}

bool MemoryMap::on_device(uint64_t address, uint64_t bytes) const {
    const std::shared_lock lock(mutex_);
    auto next = by_base_.upper_bound(address);
    if (next == by_base_.begin()) return false;
    const Memory* memory = &std::prev(next)->second;
    uint64_t offset = address - memory->base;
    while (reachable(*memory) && offset < memory->bytes) {
        if (bytes <= memory->bytes - offset) return true;
        bytes -= memory->bytes - offset;
        if (!memory->mapping || next == by_base_.end()) return false;
        const Memory& follower = next->second;
        if (!follower.mapping || follower.base != memory->base + memory->bytes) return false;
        memory = &follower;
        offset = 0;
        ++next;
    }
    return false;
}

std::optional<Memory> MemoryMap::remove(uint64_t base, std::initializer_list<Memory::Kind> kinds) {
    const std::unique_lock lock(mutex_);
    auto found = by_base_.find(base);
    if (found == by_base_.end() || found->second.global || found->second.mapping) return std::nullopt;
    if (std::find(kinds.begin(), kinds.end(), found->second.kind) == kinds.end()) return std::nullopt;
    const Memory memory = found->second;
    by_base_.erase(found);
    return memory;
}

std::vector<Memory> MemoryMap::remove_mappings(uint64_t base, uint64_t bytes) {
    const std::unique_lock lock(mutex_);
    std::vector<Memory> removed;
    for (auto it = by_base_.lower_bound(base); it != by_base_.end() && it->first - base < bytes;) {
        if (it->second.mapping) {
            removed.push_back(it->second);
            it = by_base_.erase(it);
        } else {
            ++it;
        }
    }
    return removed;
}

void MemoryMap::set_access(uint64_t base, uint64_t bytes, uint8_t device, bool granted) {
    const std::unique_lock lock(mutex_);
    for (auto it = by_base_.lower_bound(base); it != by_base_.end() && it->first - base < bytes; ++it) {
        const uint32_t bit = 1u << device;
        it->second.access = granted ? it->second.access | bit : it->second.access & ~bit;
    }
}

void MemoryMap::set_twin(uint64_t base, uint64_t device_address, uint64_t physical) {
    const std::unique_lock lock(mutex_);
    auto found = by_base_.find(base);
    if (found == by_base_.end()) return;
    found->second.device_address = device_address;
    found->second.physical = physical;
}

std::vector<Memory> MemoryMap::take_of_context(uint64_t context) {
    std::vector<Memory> taken;
    const std::unique_lock lock(mutex_);
    std::erase_if(by_base_, [&](const auto& entry) {
        const Memory& memory = entry.second;
        if (memory.context != context || memory.kind == Memory::Kind::pinned || memory.mapping) return false;
        if (!memory.global) taken.push_back(memory);
        return true;
    });
    return taken;
}

}  // namespace client
