// Free ranges of addresses, or of places in a file: what is taken and given back, joined again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace softgpu {

class Ranges {
  public:
    // A range that is free from now on; joined with those before and behind it.
    void give(uint64_t base, uint64_t bytes) {
        auto next = free_.lower_bound(base);
        if (next != free_.end() && next->first == base + bytes) {
            bytes += next->second;
            next = free_.erase(next);
        }
        if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == base) {
            std::prev(next)->second += bytes;
        } else {
            free_.emplace(base, bytes);
        }
    }

    // Takes `bytes` out of the first one at or after `from` that can hold them; `align` is a power of two.
    std::optional<uint64_t> take(uint64_t from, uint64_t bytes, uint64_t align) {
        auto it = free_.upper_bound(from);
        if (it != free_.begin() && std::prev(it)->first + std::prev(it)->second > from) --it;
        for (; it != free_.end(); ++it) {
            const uint64_t end = it->first + it->second;
            const uint64_t base = (std::max(it->first, from) + align - 1) / align * align;
            if (base > end || end - base < bytes) continue;
            const uint64_t start = it->first;
            free_.erase(it);
            if (base > start) free_.emplace(start, base - start);
            if (base + bytes < end) free_.emplace(base + bytes, end - base - bytes);
            return base;
        }
        return std::nullopt;
    }

    template <typename Visit>
    void each(Visit visit) const {
        for (const auto& [base, bytes] : free_) visit(base, bytes);
    }

  private:
    std::map<uint64_t, uint64_t> free_;  // base to bytes; no two touch
};

}  // namespace softgpu
