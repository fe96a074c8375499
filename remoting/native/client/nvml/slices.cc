#include "slices.h"

#include <pthread.h>

#include <chrono>
#include <mutex>

#include "source.h"

namespace nvml {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kFresh = 200ms;
constexpr unsigned kMostDevices = 64;

struct State {
    std::mutex mutex;
    unsigned started = 0;
    bool asked = false;
    Return result = kUninitialized;
    Clock::time_point asked_at;
    std::vector<Slice> slices;
};

// Never destroyed: programs ask NVML while they exit. A fork waits for a query that runs, so that the child
// finds no lock held by a thread that it does not have.
State& state() {
    static State* only = [] {
        pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                       [] { state().mutex.unlock(); });
        return new State;
    }();
    return *only;
}

// With the lock held: the newest answer, asked for if the last is too old. Failures too are remembered, or a
// monitor that polls would wait each time.
Return refresh(State& now) {
    if (now.asked && Clock::now() - now.asked_at < kFresh) return now.result;
    std::vector<Slice> slices;
    now.result = ask(slices);
    if (now.result == kSuccess && slices.size() > kMostDevices) now.result = kUnknown;
    if (now.result == kSuccess) now.slices = std::move(slices);
    now.asked = true;
    now.asked_at = Clock::now();
    return now.result;
}

const char* places() {
    static const char table[kMostDevices] = {};
    return table;
}

}  // namespace

Return start() {
    State& now = state();
    const std::lock_guard lock(now.mutex);
    const Return result = refresh(now);
    if (result == kSuccess) ++now.started;
    return result;
}

Return stop() {
    State& now = state();
    const std::lock_guard lock(now.mutex);
    if (now.started == 0) return kUninitialized;
    --now.started;
    return kSuccess;
}

bool is_started() {
    State& now = state();
    const std::lock_guard lock(now.mutex);
    return now.started > 0;
}

Return all(std::vector<Slice>& slices) {
    State& now = state();
    const std::lock_guard lock(now.mutex);
    if (now.started == 0) return kUninitialized;
    const Return result = refresh(now);
    if (result == kSuccess) slices = now.slices;
    return result;
}

Return slice_of(Device device, Slice& slice) {
    std::vector<Slice> slices;
    const Return result = all(slices);
    if (result != kSuccess) return result;
    unsigned index = 0;
    if (!index_of(device, index) || index >= slices.size()) return kInvalidArgument;
    slice = std::move(slices[index]);
    return kSuccess;
}

Device handle_of(unsigned index) {
    return index < kMostDevices ? places() + index : nullptr;
}

bool index_of(Device device, unsigned& index) {
    const auto at = reinterpret_cast<uintptr_t>(device), begin = reinterpret_cast<uintptr_t>(places());
    if (at < begin || at >= begin + kMostDevices) return false;
    index = static_cast<unsigned>(at - begin);
    return true;
}

}  // namespace nvml
