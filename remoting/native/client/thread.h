// What CUDA keeps for each thread: the stack of current contexts, and here the lane.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

namespace client {

class HostCalls;
class Lane;

struct Thread {
    Lane* lane = nullptr;
    uint64_t number = 0;             // from 1, of all threads of this process that used CUDA
    std::vector<uint64_t> contexts;  // handles; the last one is current
    bool in_callback = false;        // it runs a function of the program for a stream
    bool told = false;               // that it cannot have a lane
    bool of_library = false;         // none of the program's: its waits last
    HostCalls* serves = nullptr;     // it calls these functions of the program
    unsigned entries = 0;            // Entries and what is within them (life.h)
    std::atomic<bool> inside{false};
    std::vector<std::function<void()>> to_tell;  // functions of the program, for when it has left

    // The calling thread's; made on first use, given up when the thread ends.
    static Thread& current();
    // The calling thread's lane is another process's now, which has none of the other threads.
    static void forget_after_fork();
    // Calls what is to be told. A function that lasts holds up neither a life's end nor other threads' calls.
    void tell();
    // Whether the thread with this number has not ended.
    static bool lives(uint64_t number);
    // Whether any is within (life.h).
    static bool any_inside();
    // None has a lane or a context any more; nobody is within.
    static void forget_life();

  private:
    Thread();
    ~Thread();
    static void ended(void* thread);

    Thread *previous_ = nullptr, *next_ = nullptr;  // of all; under the mutex of thread.cc
};

}  // namespace client
