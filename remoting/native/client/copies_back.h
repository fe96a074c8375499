// Asynchronous copies from the device to pinned memory: the call that asks for one returns at once.
//
// The worker parks the stream that comes to a copy, and answers the one thread of this process that asks for
// what comes next: the receiver, which has a lane of its own, puts the bytes where they belong and says so
// when it asks again. Then the stream goes on. So whoever has waited for the stream, or heard that an event
// behind the copy is done, finds the bytes in the program's memory, whichever way it waited; and no copy is
// ever held anywhere, so a program may have any size under way. Nobody is received for while the program is
// in the child of a fork, or has ended.
//
// What the worker sends is put only where a copy under way is to go, of exactly its size, and once. Memory
// that goes (cuMemFreeHost, cuMemHostUnregister) waits for the copies to it here, whatever the worker says.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "box.h"
#include "cuda_abi.h"
#include "protocol.h"

namespace client {

class Call;

class CopiesBack {
  public:
    static CopiesBack& get() { return *present_; }

    bool any() const { return count_.load(std::memory_order_acquire) > 0; }

    // Submits the copy. Waits where there are as many as may be under way, and for the copy itself where
    // there can be no receiver.
    CUresult submit(Call& call, const wire::Box& to, const wire::Box& from, uint64_t stream);

    // Before the program's memory there is read, goes, or is shared with kernels: waits for the copies to it
    // that are under way. After an error of the session nothing comes any more.
    void settle(uint64_t start, uint64_t bytes);

    // The life ends; the gate is closed (life.h), and the receiver has gone.
    void forget_life();
    // In the child of a fork, which has no receiver.
    void forget_after_fork();

  private:
    struct Copy {
        wire::Box to;
        uint64_t from = 0;  // of an array 0
        uint8_t device = 0;
        bool awaited = true;  // else its memory is no longer there to be written
        bool arriving = false;
    };
    using Lock = std::unique_lock<std::mutex>;
    using Copies = std::map<uint64_t, Copy>;  // by ticket
    using Concerns = std::function<bool(uint64_t ticket, const Copy& copy)>;

    CopiesBack() = default;
    bool has_receiver(Lock& lock);
    bool make_room(Lock& lock);
    void wait(Lock& lock, const Concerns& concerns);
    void receive(uint64_t life);
    bool receive_next(Call& call, uint64_t& done);
    std::optional<wire::Box> expect(const wire::CopyBackReply& next);
    void give_up(uint64_t ticket);
    void end(const Lock& lock, Copies::iterator copy);
    void forget();

    static CopiesBack* const present_;

    // Refused: for as long as the life lasts there can be none.
    enum class Receiver : uint8_t { none, begins, there, refused };
    std::mutex mutex_;
    std::condition_variable changed_;
    Copies copies_;
    std::atomic<size_t> count_{0};  // of them
    uint64_t last_ = 0;
    uint64_t life_ = 0;  // a receiver that comes late is none of the next one's
    Receiver receiver_ = Receiver::none;
};

}  // namespace client
