// cuSPARSE's handles and descriptors, in the program's process.
#pragma once

#include <atomic>
#include <mutex>

#include "cusparse/descriptors.h"
#include "driver.h"
#include "handles.h"

namespace cusparse {

enum PointerMode : int { kHost = 0, kDevice = 1 };

// Threads may use one at once.
struct Handle {
    std::atomic<CUstream> stream{nullptr};
    std::atomic<int> pointers{kHost};
    std::mutex scratch_mutex;
    libraries::Scratch scratch;
};

// All that were given to the program and are not destroyed.
template <typename Thing>
libraries::Handles<Thing>& all() {
    static auto* const things = new libraries::Handles<Thing>;  // never destroyed: exit handlers may call
    return *things;
}

// Whether something computes here; tells the user once where nothing does.
bool can_compute();

}  // namespace cusparse
