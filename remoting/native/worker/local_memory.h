// Local memory of kernels: their frames, for all threads that a GPU can run at once. A driver makes room for
// the largest frame of a context at its first launch and keeps that; it is this lease's, so the slice pays
// for it before the launch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "cuda_abi.h"
#include "protocol.h"

namespace worker {

class Context;
struct Device;
struct LoadedKernel;

// How many threads the GPU can run at once.
uint64_t resident_threads(const Device& device);

class LocalMemory {
  public:
    // Before the kernel is launched, or made a part of a graph. OUT_OF_MEMORY, with a line for the user,
    // where the slice has no room for its frames. The software GPU has frames in its own threads.
    CUresult make_room(Context& context, const LoadedKernel& kernel);

  private:
    CUresult grow(Context& context, uint32_t frame);

    std::mutex mutex_;  // of who makes room
    std::array<std::atomic<uint32_t>, wire::kMaxDevices> largest_{};
};

}  // namespace worker
