// The process's libcuda.so.1 as a table of functions.
//
// It is opened with the first call that needs it and never closed; until then this library does nothing.
// Preloaded into a shell, it costs its loading.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi.h"

namespace cudart {

// A function that the driver lacks is null; `invoke` (forward.h) then answers CUDA_ERROR_NOT_SUPPORTED.
struct Driver {
#define DRIVER_FUNCTION(name) decltype(&::name) name;
#include "driver_functions.inc"
#undef DRIVER_FUNCTION
    unsigned long long (*gkLife)(
        int* state);  // client/life.h; null in a driver whose processes have one life
};

// The number of the process's present life. What the driver gives out is good in the life that it was asked
// in.
inline uint64_t life_of(const Driver& driver) {
    return driver.gkLife ? driver.gkLife(nullptr) : 0;
}

// Whether a life was ended, and no other has begun yet.
inline bool between_lives(const Driver& driver) {
    int state = 0;
    if (driver.gkLife) driver.gkLife(&state);
    return state == 3;
}

// A handle of the driver's, kept for as long as it is good. Zero at the start, and never destroyed.
template <typename T>
class Kept {
  public:
    // Nothing where it is another life's.
    T get(uint64_t life) const {
        return of_.load(std::memory_order_acquire) == life + 1 ? value_.load(std::memory_order_acquire) : T{};
    }
    // With a lock against others that keep. What is known of a later life stays.
    void keep(uint64_t life, T value) {
        if (of_.load() > life + 1) return;
        value_.store(value, std::memory_order_release);
        of_.store(life + 1, std::memory_order_release);
    }

  private:
    std::atomic<T> value_{};
    std::atomic<uint64_t> of_{0};
};

// The driver, initialised. Null, with the reason in `error`, when there is none, when it has no device, or
// when this process was forked from one that used it.
const Driver* use_driver(cudaError_t& error);

// The driver if it has been opened; null in a forked child.
const Driver* opened_driver();

// Whether this process was forked from one that had opened the driver: nothing of it works here.
bool forked();

}  // namespace cudart
