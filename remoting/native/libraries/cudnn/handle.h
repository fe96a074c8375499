// cuDNN's handles and descriptors, in the program's process.
#pragma once

#include <atomic>

#include "cudnn/descriptors.h"
#include "driver.h"
#include "handles.h"

namespace cudnn {

struct Handle {
    std::atomic<CUstream> stream{nullptr};
    std::atomic<bool> computes{false};  // an end was found
};

// All that were given to the program and are not destroyed.
template <typename Thing>
libraries::Handles<Thing>& all() {
    static auto* const things = new libraries::Handles<Thing>;  // never destroyed: exit handlers may call
    return *things;
}

}  // namespace cudnn
