// What CUDA keeps for each thread: the stack of current contexts, and here the lane.
#pragma once

#include <cstdint>
#include <vector>

namespace client {

class Lane;

struct Thread {
    Lane* lane = nullptr;
    uint64_t number = 0;             // from 1, of all threads of this process that used CUDA
    std::vector<uint64_t> contexts;  // handles; the last one is current
    bool in_callback = false;        // it runs a function of the program for a stream
    bool told = false;               // that it cannot have a lane

    // The calling thread's; made on first use, given up when the thread ends.
    static Thread& current();
    // The calling thread's lane is another process's now.
    static void forget_lane();
};

}  // namespace client
