#include "exec/check/unwritten.h"

#include <algorithm>
#include <mutex>
#include <new>

namespace softgpu::check {

Unwritten& Unwritten::get() {
    static auto* only = new Unwritten;  // never destroyed: kernels may run while the process exits
    return *only;
}

void Unwritten::allocated(uint64_t base, uint64_t bytes) noexcept try {
    const uint64_t words = (bytes + 7) / 8;
    Room room;
    if (!room.take(words)) return;
    std::unique_ptr<std::atomic<uint8_t>[]> bits(new std::atomic<uint8_t>[words]);
    for (uint64_t i = 0; i < words; ++i) bits[i].store(0xff, std::memory_order_relaxed);
    const std::unique_lock lock(mutex_);
    if (live_.try_emplace(base, Bits{bytes, std::move(bits), std::move(room)}).second)
        bytes_.fetch_add(words);
} catch (const std::bad_alloc&) {
}

void Unwritten::freed(uint64_t base) noexcept {
    if (!any()) return;
    const std::unique_lock lock(mutex_);
    const auto found = live_.find(base);
    if (found == live_.end()) return;
    bytes_.fetch_sub((found->second.bytes + 7) / 8);
    live_.erase(found);
}

const std::pair<const uint64_t, Unwritten::Bits>* Unwritten::holder(uint64_t address) const {
    auto after = live_.upper_bound(address);
    if (after == live_.begin()) return nullptr;
    const auto& candidate = *std::prev(after);
    return address - candidate.first < candidate.second.bytes ? &candidate : nullptr;
}

void Unwritten::written(uint64_t address, uint64_t bytes) noexcept {
    if (!any()) return;
    const std::shared_lock lock(mutex_);
    const auto* found = holder(address);
    if (found == nullptr) return;
    const uint64_t first = address - found->first;
    const uint64_t end = std::min(first + bytes, found->second.bytes);
    for (uint64_t at = first; at < end;) {
        const unsigned bit = at % 8;
        const auto count = unsigned(std::min<uint64_t>(8 - bit, end - at));
        const auto mask = uint8_t(((1u << count) - 1) << bit);
        found->second.words[at / 8].fetch_and(uint8_t(~mask), std::memory_order_relaxed);
        at += count;
    }
}

void Unwritten::copied(uint64_t to, uint64_t from, uint64_t bytes) noexcept {
    if (!any()) return;
    std::shared_lock lock(mutex_);
    const auto *target = holder(to), *source = holder(from);
    if (target == nullptr || source == nullptr) {
        lock.unlock();
        return written(to, bytes);
    }
    const uint64_t end = std::min(
        {bytes, target->first + target->second.bytes - to, source->first + source->second.bytes - from});
    for (uint64_t i = 0; i < end; ++i) {
        const uint64_t s = from + i - source->first, t = to + i - target->first;
        if (source->second.words[s / 8].load(std::memory_order_relaxed) >> (s % 8) & 1)
            target->second.words[t / 8].fetch_or(uint8_t(1u << (t % 8)), std::memory_order_relaxed);
        else
            target->second.words[t / 8].fetch_and(uint8_t(~(1u << (t % 8))), std::memory_order_relaxed);
    }
}

bool Unwritten::none_written(uint64_t address, uint64_t bytes) const noexcept {
    if (!any()) return false;
    const std::shared_lock lock(mutex_);
    const auto* found = holder(address);
    if (found == nullptr) return false;
    const uint64_t first = address - found->first;
    for (uint64_t at = first; at < std::min(first + bytes, found->second.bytes); ++at) {
        const uint8_t word = found->second.words[at / 8].load(std::memory_order_relaxed);
        if (!(word >> (at % 8) & 1)) return false;
    }
    return true;
}

}  // namespace softgpu::check
