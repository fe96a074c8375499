// The handles of cuSOLVER's dense part, and its objects: in the program's process.
#pragma once

#include <cuda.h>

#include <atomic>

#include "handles.h"
#include "operands.h"

namespace cusolver {

struct Handle {
    std::atomic<CUstream> stream{nullptr};
};
// Settings that choose between algorithms, of which there is one.
struct Params {};

template <typename Object>
libraries::Handles<Object>& all_of() {
    static auto* const all = new libraries::Handles<Object>;  // never destroyed: exit handlers may call
    return *all;
}

}  // namespace cusolver
