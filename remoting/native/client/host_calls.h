// Functions of the program that its streams call (cuLaunchHostFunc, cuStreamAddCallback).
//
// The program's pointers stay here: the worker knows a ticket, parks its stream when the stream comes to it,
// and answers the one thread of this process that asks for what is to be called next. That thread has a lane
// of its own and serves nothing else, so a function that takes long holds up nothing but the streams that
// wait for it. What it calls of CUDA answers CUDA_ERROR_NOT_PERMITTED.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "cuda_abi.h"
#include "protocol.h"

namespace client {

class Call;

struct HostFunction {
    CUhostFn function = nullptr;
    CUstreamCallback callback = nullptr;  // one of the two
    CUstream stream = nullptr;            // as the program named it, for its callback
    void* data = nullptr;
    // Brings what it must find in the program's memory; empty when there is nothing.
    std::function<void(Call&)> before{};
    // Sends what it may have written there, before its stream goes on.
    std::function<void(Call&)> after{};
};

class HostCalls {
  public:
    // Those of this life. Under an Entry (life.h).
    static HostCalls& get();
    // Others from now on; the gate is closed. The thread of those before tells what is left to be told, and
    // ends.
    static void end_life();

    // Enters the function for a stream, as its handle is on the wire. 0 when there can be no thread to call
    // it.
    uint64_t add(const HostFunction& function, uint64_t stream);
    // It will not be called: it was not sent.
    void drop(uint64_t ticket);

    // For a graph's node: called once for each `launch`, which enters it for a stream, and forgotten when it
    // was `release`d and all launches have come to it.
    uint64_t keep(const HostFunction& function);
    void launch(uint64_t ticket, uint64_t stream);
    void release(uint64_t ticket);

    // Called in a thread that a function ends. Python's do when the interpreter has ended: no function can
    // run any more, and what then waits for a stream would wait for ever. A new thread says of all that are
    // left that they are done.
    void thread_ended_in_function();

    // Waits until what was given to this stream so far has been called: an asynchronous copy from the
    // program's memory must see what these functions write there. The error, when its context has
    // failed and they will not be.
    CUresult wait_for(uint64_t stream, Call& call);

  private:
    struct Given {
        HostFunction function;
        std::deque<uint64_t> streams{};  // that will come to it, in this order
        bool kept = false;
    };

    HostCalls() = default;
    ~HostCalls() = default;
    bool is_present() const { return present_.load(std::memory_order_acquire) == this; }
    void let_go();
    bool start();
    bool start_thread();
    void serve(uint64_t done);
    bool next(uint64_t done, wire::HostCallReply& reply);
    bool prepare(const wire::HostCallReply& reply);
    void run(CUresult status);
    void after_call();
    void end_call(uint64_t ticket);
    void lost(CUresult error);

    static std::atomic<HostCalls*> present_;

    // Of the present life, or with a thread: the last of the two takes it down. No destructor does it,
    // because a function may end its thread.
    std::atomic<int> holders_{1};
    HostFunction running_;  // this and its ticket are the serving thread's
    uint64_t running_ticket_ = 0;
    std::atomic<bool> interpreter_ended_{false};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<uint64_t, Given> entries_;  // by ticket
    uint64_t last_ = 0;
    std::atomic<uint64_t> ended_within_{0};  // for a new thread: the function that ended the one before
    bool started_ = false;
    bool lost_ = false;
};

}  // namespace client
