// Memory of this machine that sessions make the worker keep: other leases live on the same machine, so it has
// a limit, for all sessions of the lease together.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace worker {

class HostBudget {
  public:
    explicit HostBudget(uint64_t limit) : limit_(limit) {}
    // Before anything is taken.
    void set_limit(uint64_t limit) { limit_ = limit; }
    bool take(uint64_t bytes) {
        uint64_t used = used_.load();
        do {
            if (bytes > limit_ - used) return false;
        } while (!used_.compare_exchange_weak(used, used + bytes));
        return true;
    }
    void give_back(uint64_t bytes) { used_.fetch_sub(bytes); }
    uint64_t used() const { return used_.load(); }

  private:
    uint64_t limit_;
    std::atomic<uint64_t> used_{0};
};

// What one thing has of it; given back with the thing. `budget` must outlive it.
class HostShare {
  public:
    explicit HostShare(HostBudget& budget) : budget_(&budget) {}
    HostShare(HostShare&& other) noexcept : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
    HostShare& operator=(HostShare&&) = delete;
    ~HostShare() { drop(); }
    bool grow(uint64_t bytes) {
        const bool fits = budget_->take(bytes);
        if (fits) bytes_ += bytes;
        return fits;
    }
    void drop() { budget_->give_back(std::exchange(bytes_, 0)); }

  private:
    HostBudget* budget_;
    uint64_t bytes_ = 0;
};

}  // namespace worker
