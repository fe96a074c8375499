// The order of a session's posted calls over its lanes; wire/protocol.h says what it is and why it is enough.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace worker {

class Order {
  public:
    // Waits until the calls up to `number` have been executed. `give_up` is asked now and then; false when it
    // said yes.
    bool wait_for(uint64_t number, const std::function<bool()>& give_up);

    // The posted call `number` has been executed. Only the lane that waited for number - 1 may say so.
    void executed(uint64_t number);

    uint64_t executed() const { return executed_.load(std::memory_order_acquire); }

  private:
    std::atomic<uint64_t> executed_{0};
    std::atomic<int> waiting_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
};

}  // namespace worker
