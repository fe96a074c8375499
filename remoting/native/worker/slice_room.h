// Whether the slice has room for what a driver is about to be asked for. What was given back is noticed here:
// when a request does not fit, and twice a second for the status, so that calls which fit ask the driver
// nothing.
//
// Before a request is refused, pools let go of what they keep for later, and frees that wait in streams are
// waited for. A driver may give a stream at once what that stream has freed before, but promises it only
// where the pool has a piece that is large enough, so the slice does not count on it: a program that frees
// and allocates in one stream at the slice's size goes on, at the speed of its stream. Frees behind a
// function of the program's own may wait for this very call: then, and after kPatience, the request is
// refused. So are sessions waited for whose programs have gone: who begins a new life of its process finds
// the room that the old one had.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace worker {

struct Worker;
class Session;

class SliceRoom {
  public:
    explicit SliceRoom(Worker& worker) : worker_(worker) {}

    // Takes `charge` from the slice (MemoryLedger::reserve). False, with a line for the session's user where
    // frees wait in streams, when it does not fit. May wait; the caller holds no lock of the worker's.
    bool take(Session& session, uint8_t device, uint64_t charge);
    // Gives back what has been freed since. Does not wait for streams.
    void look();
    // Something may come back later.
    void note() { changed_.store(true, std::memory_order_relaxed); }
    // Looks twice a second where something was noted, for ever: a thread's.
    [[noreturn]] void watch();

  private:
    static constexpr std::chrono::seconds kPatience{10};
    static constexpr std::chrono::milliseconds kPatienceWithProgram{200};
    static constexpr std::chrono::seconds kPatienceWithSession{2};

    bool take_after_trim(uint8_t device, uint64_t charge);
    bool waits_for_program();
    bool another_ends(const Session& session);

    Worker& worker_;
    std::atomic<bool> changed_{false};
};

}  // namespace worker
