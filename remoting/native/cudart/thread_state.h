// What the runtime keeps for a thread: its device, its last error, and the launches that it has begun.
//
// Plain data without a destructor, so that calls from a thread's last destructors and from exit handlers
// work.
#pragma once

#include "abi.h"

namespace cudart {

struct LaunchShape {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};

struct ThreadState {
    // Launches nest where an argument of a kernel is made by a function that launches another.
    static constexpr int kMaxShapes = 16;

    int device = 0;
    uint64_t life = 0;  // in which it chose the device
    cudaError_t last_error = cudaSuccess;
    int shapes = 0;
    LaunchShape shape[kMaxShapes];
};

ThreadState& this_thread();

// Every call's end. An error becomes the thread's last error; "not ready" is an answer, not an error, as the
// programming guide has it.
cudaError_t finish(cudaError_t error);

// The runtime's code for a driver's: the numbers are the same, but not every one of them is in both
// enumerations.
cudaError_t translated(CUresult result);

}  // namespace cudart
