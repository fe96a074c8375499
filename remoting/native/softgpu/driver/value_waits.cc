#include "value_waits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "signals_blocked.h"

namespace softgpu::driver {
namespace {

template <typename Word, typename Difference>
bool holds(const cuda::StreamMemoryOp& op) {
    const Word found = std::atomic_ref<Word>(*reinterpret_cast<Word*>(op.address)).load();
    const Word value = static_cast<Word>(op.value);
    switch (op.flags) {
        case CU_STREAM_WAIT_VALUE_EQ:
            return found == value;
        case CU_STREAM_WAIT_VALUE_AND:
            return (found & value) != 0;
        case CU_STREAM_WAIT_VALUE_NOR:
            return static_cast<Word>(~(found | value)) != 0;
        default:
            return static_cast<Difference>(found - value) >= 0;
    }
}

bool is_over(const ValueWait& wait) {
    if (wait.group->status() != CUDA_SUCCESS || wait.group->cancel) return true;
    if (wait.session->interrupts.load(std::memory_order_acquire) != wait.interrupts) {
        wait.session->lost_work();
        return true;
    }
    return wait.op.bytes() == 4 ? holds<uint32_t, int32_t>(wait.op) : holds<uint64_t, int64_t>(wait.op);
}

}  // namespace

void ValueWaits::add(ValueWait wait) {
    wait.met->awaits_value();
    const std::lock_guard lock(mutex_);
    new_.push_back(std::move(wait));
    if (!started_) {
        const SignalsBlocked blocked;
        std::thread([this] { watch(); }).detach();
        started_ = true;
    }
    added_.notify_one();
}

bool ValueWaits::look() {
    const auto ended = std::partition(watched_.begin(), watched_.end(),
                                      [](const ValueWait& wait) { return !is_over(wait); });
    const bool any = ended != watched_.end();
    for (auto wait = ended; wait != watched_.end(); ++wait) scheduler_.end(wait->met);
    watched_.erase(ended, watched_.end());
    return any;
}

void ValueWaits::watch() {
    using namespace std::chrono_literals;
    constexpr auto kFirst = 10us, kLongest = 1000us;
    for (auto pause = kFirst;;) {
        {
            std::unique_lock lock(mutex_);
            if (watched_.empty()) added_.wait(lock, [this] { return !new_.empty(); });
            // What is new may be about to come true.
            if (!new_.empty()) pause = kFirst;
            std::move(new_.begin(), new_.end(), std::back_inserter(watched_));
            new_.clear();
        }
        pause = look() ? kFirst : std::min(2 * pause, kLongest);
        if (!watched_.empty()) std::this_thread::sleep_for(pause);
    }
}

}  // namespace softgpu::driver
