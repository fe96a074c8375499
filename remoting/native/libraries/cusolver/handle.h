// The handles of cuSOLVER, and its objects: in the program's process.
#pragma once

#include <cuda.h>

#include <atomic>
#include <mutex>

#include "driver.h"
#include "handles.h"
#include "operands.h"

namespace cusolver {

struct Handle {
    std::atomic<CUstream> stream{nullptr};
    std::mutex scratch_mutex;
    libraries::Scratch scratch;
};
// Of the dense part, and of the sparse one: none serves the other.
struct DenseHandle : Handle {};
struct SparseHandle : Handle {};
// Settings that choose between algorithms, of which there is one.
struct Params {};

template <typename Object>
libraries::Handles<Object>& all_of() {
    static auto* const all = new libraries::Handles<Object>;  // never destroyed: exit handlers may call
    return *all;
}

}  // namespace cusolver
