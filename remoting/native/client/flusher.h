// The thread that sends what posted calls left in the lanes' buffers, at most kPeriod later.
//
// A single posted call is sent by its own thread: that is the shortest way to the GPU. In a burst a system
// call each would cost more than everything else, so from the second on the flusher is awake and sends all
// that has gathered every kPeriod; the program pays a copy to the buffer. It goes back to sleep when nothing
// came for kAwake. Whoever waits for an answer sends its own buffer first and never waits for the flusher,
// and a lane whose buffer has grown to Lane::kSendAt sends it at once: only the end of a burst waits for the
// period. A period of 50 us disturbed a program on two cores more than it gained: launch and synchronise
// took 16 us instead of 9.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace client {

class Lane;
class Session;

class Flusher {
  public:
    static constexpr std::chrono::microseconds kPeriod{200};
    static constexpr std::chrono::microseconds kAwake{2000};

    // After an append to `lane`, by its owner. False when the connection is broken.
    bool schedule(Session& session, Lane& lane);
    // In the child of a fork, which has none of the parent's threads.
    void forget_after_fork() { state_.store(kNotStarted); }

  private:
    void wake(Session& session);
    void run(Session& session);
    static void* entry(void* argument);

    enum State : uint32_t { kNotStarted, kAsleep, kRunning, kUnavailable };
    std::atomic<uint32_t> state_{kNotStarted};
};

}  // namespace client
