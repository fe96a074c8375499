// What CUDA keeps for each thread: the stack of current contexts, and here the lane.
#pragma once

#include <vector>

namespace client {

class Lane;
struct Context;

struct Thread {
    Lane* lane = nullptr;
    std::vector<Context*> contexts;  // the last one is current

    // The calling thread's; made on first use, given up when the thread ends.
    static Thread& current();
    // The calling thread's lane is another process's now.
    static void forget_lane();
};

}  // namespace client
