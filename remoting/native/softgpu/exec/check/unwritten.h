// Which bytes of device memory nobody has written since they were allocated: a bit a byte, for the
// allocations of those who check only, so at most an eighth of the device's memory and what the budget has.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>

#include "exec/check/budget.h"

namespace softgpu::check {

class Unwritten {
  public:
    static Unwritten& get();

    void allocated(uint64_t base,
                   uint64_t bytes) noexcept;  // without room for the bits it counts as written
    void freed(uint64_t base) noexcept;
    void written(uint64_t address, uint64_t bytes) noexcept;
    // The destination of a copy on the device is as far written as its source.
    void copied(uint64_t to, uint64_t from, uint64_t bytes) noexcept;
    // True when no byte of it has been written.
    bool none_written(uint64_t address, uint64_t bytes) const noexcept;

    bool any() const { return bytes_.load(std::memory_order_relaxed) > 0; }
    uint64_t shadow_bytes() const { return bytes_.load(std::memory_order_relaxed); }

  private:
    Unwritten() = default;
    struct Bits {
        uint64_t bytes;
        std::unique_ptr<std::atomic<uint8_t>[]> words;  // bit i of byte i / 8: not written
        Room room;
    };
    const std::pair<const uint64_t, Bits>* holder(uint64_t address) const;

    mutable std::shared_mutex mutex_;
    std::map<uint64_t, Bits> live_;  // by base
    std::atomic<uint64_t> bytes_{0};
};

}  // namespace softgpu::check
