// Functions of a session's client that its streams call. The driver's thread that comes to one is parked here
// until the client has run it, and with it the stream; no lane is. The client runs them one at a time, in the
// order in which streams came to them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "cuda_abi.h"
#include "protocol.h"

namespace worker {

class HostCalls : public std::enable_shared_from_this<HostCalls> {
  public:
    // `abandoned` is asked now and then whether the client has gone; never after close().
    explicit HostCalls(std::function<bool()> abandoned) : abandoned_(std::move(abandoned)) {}

    // What is handed to the driver with one of the two functions below; it ends with the call.
    void* expect(uint64_t ticket);
    // The driver did not take it.
    static void unexpect(void* expected);

    static void CUDA_CB function(void* expected);
    static void CUDA_CB callback(CUstream stream, CUresult status, void* expected);

    // For a function that is called at each launch of a graph, by `kept_function`; it lives as long as the
    // driver may call it.
    struct Expected {
        std::shared_ptr<HostCalls> calls;
        uint64_t ticket;
    };
    std::unique_ptr<Expected> keep(uint64_t ticket);
    static void CUDA_CB kept_function(void* kept);

    // Tells the client that the function will not be called. False when it has not asked for so long that
    // there is no more room.
    bool refuse(uint64_t ticket);

    // For the lane that the client asks on: says that `done`, unless it is 0, was run, and waits for the
    // next.
    enum class Next : uint8_t { there, malformed, gone };
    Next next(uint64_t done, wire::HostCallReply& reply);

    // Whether a stream is parked until the client has run a function.
    bool waits();

    // The client has gone: nobody waits from now on.
    void close();

  private:
    struct Delivery {
        wire::HostCallReply reply;
        bool done = false;
    };
    void park(uint64_t ticket, CUresult status);
    bool closed();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<bool()> abandoned_;
    std::deque<std::shared_ptr<Delivery>> waiting_;
    std::shared_ptr<Delivery> running_;
    bool listening_ = false;
    bool closed_ = false;
};

}  // namespace worker
