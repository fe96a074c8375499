#include "memory_map.h"

#include <algorithm>
#include <mutex>

#include "context.h"
#include "session.h"

namespace client {

MemoryMap& MemoryMap::get() {
    static auto* map = new MemoryMap;
    return *map;
}

// What lies in the slice is shown to the lease's other processes; a library's variables are its module's.
void MemoryMap::count(const Memory& memory, bool has) {
    if (memory.kind == Memory::Kind::pinned || memory.global) return;
    const auto bytes = static_cast<int64_t>(memory.bytes);
    Session::get().count_memory(memory.device, has ? bytes : -bytes);
}

void MemoryMap::put(Memory& memory) {
    memory.id = ++last_id_;
    by_base_[memory.base] = memory;
    count(memory, true);
}

void MemoryMap::add(Memory memory) {
    if (!memory.context) memory.context = current_context_id();
    const std::unique_lock lock(mutex_);
    put(memory);
}

bool MemoryMap::add_new(Memory memory) {
    if (!memory.context) memory.context = current_context_id();
    const std::unique_lock lock(mutex_);
    if (at(memory.base)) return false;
    put(memory);
    return true;
}

const Memory* MemoryMap::at(uint64_t address) const {
    auto after = by_base_.upper_bound(address);
    if (after == by_base_.begin()) return nullptr;
    const Memory& memory = std::prev(after)->second;
    return address - memory.base < memory.bytes ? &memory : nullptr;
}

std::optional<Memory> MemoryMap::find(uint64_t address) const {
    const std::shared_lock lock(mutex_);
    const Memory* memory = at(address);
    return memory ? std::optional(*memory) : std::nullopt;
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

template <class Test>
std::optional<Memory> MemoryMap::remove_if(uint64_t base, Test&& test) {
    auto found = by_base_.find(base);
    if (found == by_base_.end() || !test(found->second)) return std::nullopt;
    const Memory memory = found->second;
    by_base_.erase(found);
    count(memory, false);
    return memory;
}

std::optional<Memory> MemoryMap::remove(uint64_t base, std::initializer_list<Memory::Kind> kinds) {
    const std::unique_lock lock(mutex_);
    return remove_if(base, [&](const Memory& memory) {
        return !memory.global && !memory.mapping &&
               std::find(kinds.begin(), kinds.end(), memory.kind) != kinds.end();
    });
}

std::optional<Memory> MemoryMap::remove_host(uint64_t base, bool registered) {
    const std::unique_lock lock(mutex_);
    return remove_if(base, [&](const Memory& memory) {
        return memory.kind == Memory::Kind::pinned && memory.registered == registered;
    });
}

std::vector<Memory> MemoryMap::remove_mappings(uint64_t base, uint64_t bytes) {
    const std::unique_lock lock(mutex_);
    std::vector<Memory> removed;
    for (auto it = by_base_.lower_bound(base); it != by_base_.end() && it->first - base < bytes;) {
        if (it->second.mapping) {
            removed.push_back(it->second);
            count(it->second, false);
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

void MemoryMap::set_twin(const Memory& twin) {
    const std::unique_lock lock(mutex_);
    auto found = by_base_.find(twin.base);
    if (found == by_base_.end()) return;
    found->second.device_address = twin.device_address;
    found->second.physical = twin.physical;
    found->second.in_place = twin.in_place;
}

void MemoryMap::end_life() {
    constexpr size_t kMostGivenOut = 1 << 16;
    const std::unique_lock lock(mutex_);
    for (const auto& [base, memory] : by_base_) {
        const bool in_process = memory.kind != Memory::Kind::device && !memory.registered;
        if (in_process) earlier_[base] = memory;
        if (memory.kind == Memory::Kind::device && !memory.global && given_out_.size() < kMostGivenOut)
            given_out_[base] = memory.bytes;
    }
    by_base_.clear();
    any_earlier_.store(!earlier_.empty() || !given_out_.empty(), std::memory_order_release);
}

std::optional<Memory> MemoryMap::take_earlier(uint64_t base, Memory::Kind kind) {
    if (!any_earlier_.load(std::memory_order_acquire)) return std::nullopt;
    const std::unique_lock lock(mutex_);
    const auto found = earlier_.find(base);
    if (found == earlier_.end() || found->second.kind != kind) return std::nullopt;
    const Memory memory = found->second;
    earlier_.erase(found);
    return memory;
}

bool MemoryMap::free_earlier(uint64_t base) {
    if (!any_earlier_.load(std::memory_order_acquire)) return false;
    const std::unique_lock lock(mutex_);
    return !by_base_.contains(base) && given_out_.erase(base) == 1;
}

bool MemoryMap::was_given_out(uint64_t address, uint64_t bytes) const {
    if (!any_earlier_.load(std::memory_order_acquire)) return false;
    const std::shared_lock lock(mutex_);
    const auto after = given_out_.lower_bound(address);
    if (after != given_out_.end() && after->first - address < bytes) return true;
    if (after == given_out_.begin()) return false;
    const auto& [base, length] = *std::prev(after);
    return address - base < length;
}

std::vector<Memory> MemoryMap::take_of_context(uint64_t context) {
    std::vector<Memory> taken;
    const std::unique_lock lock(mutex_);
    std::erase_if(by_base_, [&](const auto& entry) {
        const Memory& memory = entry.second;
        if (memory.context != context || memory.kind == Memory::Kind::pinned || memory.mapping) return false;
        if (!memory.global) taken.push_back(memory);
        count(memory, false);
        return true;
    });
    return taken;
}

}  // namespace client
