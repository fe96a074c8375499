#include "order.h"

#include <chrono>

namespace worker {

bool Order::wait_for(uint64_t number, const std::function<bool()>& give_up) {
    // The other lane is usually about to finish: look for a moment before sleeping.
    for (int i = 0; i < 200; ++i) {
        if (executed_.load(std::memory_order_acquire) >= number) return true;
        __builtin_ia32_pause();
    }
    std::unique_lock lock(mutex_);
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    bool waiting = true;
    while (waiting && executed_.load(std::memory_order_seq_cst) < number) {
        waiting = !give_up();
        if (waiting) changed_.wait_for(lock, std::chrono::milliseconds(100));
    }
    waiting_.fetch_sub(1, std::memory_order_seq_cst);
    return waiting;
}

void Order::executed(uint64_t number) {
    executed_.store(number, std::memory_order_seq_cst);
    if (waiting_.load(std::memory_order_seq_cst) == 0) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
}

}  // namespace worker
