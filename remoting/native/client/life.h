// The lives of this process: the time in which it has one session (docs/design/lab.md, "A second life").
//
// Every exported function runs within an Entry, which codegen puts around it (client_entries.cc), and so do
// the threads of this library whenever they touch what belongs to a life. gkNewLife closes the gate: it shuts
// the session's connections, so that whoever waits for the worker comes back with an error, waits until
// nobody is within, takes down all that belonged to the life, and opens the gate. Why no call ever touches
// what is freed, or reaches the session of another life than the one in which it began:
//   - who is within has entered before the gate was closed, and what it uses is taken down after it has left;
//     who comes while the gate is closed waits before it has looked at anything;
//   - a thread stores `inside` and then looks whether the gate is closed; gkNewLife closes the gate and then
//     looks at every `inside`. All four are sequentially consistent: one of the two sees the other;
//   - so a call sees one session from its first look-up to its last byte. Handles are never given out twice
//     (handles.h, graphs/objects.h): one of an earlier life is found in no table, and no message names it.
// It comes to an end, because those within wait for nothing but the worker, whose connections are shut again
// and again until they have left; a new thread's connection, which has a time limit; and each other. What may
// last for ever is done outside: waiting for a slice (Outside), functions of the program that streams call,
// and those that graphs' objects have for their end, which are called when the thread has left, or the gate
// is open again.
#pragma once

#include <atomic>
#include <cstdint>

#include "thread.h"

namespace client {

class Gate {
  public:
    static Gate& get();

    void enter(Thread& thread) {
        thread.inside.store(true, std::memory_order_seq_cst);
        if (closed_.load(std::memory_order_seq_cst)) [[unlikely]]
            wait(thread);
    }
    void leave(Thread& thread) { thread.inside.store(false, std::memory_order_release); }

    // Nobody is within when it returns. `hurry` is called again and again until then.
    void close(void (*hurry)());
    void open();

    // In the child of a fork. Whether the gate was closed.
    bool forget_after_fork() { return closed_.exchange(0) != 0; }

  private:
    void wait(Thread& thread);

    std::atomic<int> closed_{0};
};

// The calling thread is within, as long as one of these lives.
class Entry {
  public:
    Entry() : thread_(Thread::current()) {
        if (thread_.entries++ == 0) Gate::get().enter(thread_);
    }
    ~Entry() {
        if (--thread_.entries > 0) return;
        Gate::get().leave(thread_);
        if (!thread_.to_tell.empty()) [[unlikely]]
            thread_.tell();
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

  private:
    Thread& thread_;
};

// The calling thread is not, whatever Entries it has: for what may last for ever. A life may end meanwhile,
// so nothing is kept over it, no lock either.
class Outside {
  public:
    Outside();
    ~Outside();
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;

  private:
    Thread& thread_;
    const unsigned entries_;
};

}  // namespace client

extern "C" {

// Ends this process's life: what it has on the GPU is gone, and so are its handles. The next call that needs
// no handle begins another at the attach point. CUDA_SUCCESS also where there is none to end;
// CUDA_ERROR_NOT_PERMITTED within a function that CUDA has called; CUDA_ERROR_NOT_INITIALIZED in the child of
// a fork that has not its own.
__attribute__((visibility("default"))) int gkNewLife(void);

// How many lives have ended: what a caller keeps of the driver's is good while this stays the same. In
// `state`, where it is asked for: 0 none has begun, 1 it lives, 2 it has failed and answers with an error
// until it is ended, 3 it was ended and no other has begun.
__attribute__((visibility("default"))) unsigned long long gkLife(int* state);
}
