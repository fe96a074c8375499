#include "memory_ledger.h"

#include <algorithm>
#include <numeric>

namespace worker {
namespace {

constexpr uint64_t kGranule = 512;

}  // namespace

MemoryLedger::MemoryLedger(std::vector<uint64_t> limits)
    : limits_(std::move(limits)), used_(limits_.size()) {}

uint64_t MemoryLedger::charge_of(uint64_t bytes) {
    return bytes > UINT64_MAX - kGranule ? UINT64_MAX : (bytes + kGranule - 1) / kGranule * kGranule;
}

bool MemoryLedger::reserve(uint8_t device, uint64_t charge) {
    const std::unique_lock lock(mutex_);
    if (used_[device] > limits_[device] || charge > limits_[device] - used_[device]) return false;
    used_[device] += charge;
    peak_ = std::max(peak_, std::accumulate(used_.begin(), used_.end(), uint64_t{0}));
    return true;
}

void MemoryLedger::give_back(uint8_t device, uint64_t charge) {
    const std::unique_lock lock(mutex_);
    used_[device] -= charge;
}

void MemoryLedger::take_beyond(uint8_t device, uint64_t charge) {
    const std::unique_lock lock(mutex_);
    used_[device] += charge;
    peak_ = std::max(peak_, std::accumulate(used_.begin(), used_.end(), uint64_t{0}));
}

void MemoryLedger::add(const Allocation& allocation) {
    const std::unique_lock lock(mutex_);
    by_base_[allocation.base] = allocation;
}

std::optional<Allocation> MemoryLedger::take(uint64_t base, const Session* owner) {
    const std::unique_lock lock(mutex_);
    auto found = by_base_.find(base);
    if (found == by_base_.end() || found->second.owner != owner) return std::nullopt;
    if (found->second.charged == 0 && !found->second.host) return std::nullopt;
    const Allocation allocation = found->second;
    by_base_.erase(found);
    return allocation;
}

template <typename Predicate>
std::vector<Allocation> MemoryLedger::take_if(Predicate predicate) {
    std::vector<Allocation> taken;
    const std::unique_lock lock(mutex_);
    for (auto entry = by_base_.begin(); entry != by_base_.end();) {
        if (predicate(entry->second)) {
            taken.push_back(entry->second);
            entry = by_base_.erase(entry);
        } else {
            ++entry;
        }
    }
    return taken;
}

std::vector<Allocation> MemoryLedger::take_all(const Session* owner) {
    return take_if([&](const Allocation& allocation) { return allocation.owner == owner; });
}

std::vector<Allocation> MemoryLedger::take_device(const Session* owner, uint8_t device) {
    return take_if([&](const Allocation& allocation) {
        return allocation.owner == owner && allocation.device == device && allocation.charged > 0;
    });
}

void MemoryLedger::forget_global(uint64_t base, const Session* owner) {
    const std::unique_lock lock(mutex_);
    auto found = by_base_.find(base);
    if (found != by_base_.end() && found->second.owner == owner && found->second.charged == 0)
        by_base_.erase(found);
}

bool MemoryLedger::accessible(uint64_t address, uint64_t bytes) const {
    return bytes == 0 || device_of(address, bytes).has_value();
}

std::optional<uint8_t> MemoryLedger::device_of(uint64_t address, uint64_t bytes) const {
    const std::shared_lock lock(mutex_);
    auto next = by_base_.upper_bound(address);
    if (next == by_base_.begin() || bytes == 0) return std::nullopt;
    const Allocation* allocation = &std::prev(next)->second;
    const uint8_t device = allocation->device;
    uint64_t offset = address - allocation->base;
    while (offset < allocation->bytes && bytes > allocation->bytes - offset) {
        if (!allocation->joins || next == by_base_.end() || !next->second.joins) return std::nullopt;
        if (next->first != allocation->base + allocation->bytes || next->second.device != device)
            return std::nullopt;
        bytes -= allocation->bytes - offset;
        offset = 0;
        allocation = &next->second;
        ++next;
    }
    if (offset >= allocation->bytes) return std::nullopt;
    return device;
}

uint64_t MemoryLedger::used(uint8_t device) const {
    const std::shared_lock lock(mutex_);
    return used_[device];
}

uint64_t MemoryLedger::left(uint8_t device) const {
    const uint64_t taken = used(device);
    return taken > limits_[device] ? 0 : limits_[device] - taken;
}

uint64_t MemoryLedger::used_of_all() const {
    const std::shared_lock lock(mutex_);
    return std::accumulate(used_.begin(), used_.end(), uint64_t{0});
}

uint64_t MemoryLedger::peak_of_all() const {
    const std::shared_lock lock(mutex_);
    return peak_;
}

}  // namespace worker
