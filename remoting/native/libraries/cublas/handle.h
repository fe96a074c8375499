// cuBLAS' handles: a stream and some settings, in the program's process.
#pragma once

#include <atomic>
#include <mutex>

#include "driver.h"
#include "handles.h"

namespace cublas {

enum PointerMode : int { kHost = 0, kDevice = 1 };

// Threads may use one at once.
struct Handle {
    std::atomic<CUstream> stream{nullptr};
    std::atomic<int> pointers{kHost};
    std::atomic<int> math{0};
    std::atomic<int> atomics{0};
    std::atomic<int> multiprocessors{0};
    std::atomic<uint64_t> workspace{0}, workspace_bytes{0};
    std::mutex scratch_mutex;
    libraries::Scratch scratch;
};

libraries::Handles<Handle>& handles();

}  // namespace cublas
