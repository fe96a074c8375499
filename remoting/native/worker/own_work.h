// What of the work in the lease's contexts is one session's. Sessions share a context a GPU and its default
// stream, so who waits for the whole context waits for kernels of others, which may never end. A session's
// end waits for this instead, and so do its program's waits where it is not alone (synchronize.cc).
//
// Own streams are waited for as they are. In the default stream the end of a session's work is marked by an
// event, which must come before what others submit, since it waits for all that came before it: so a session
// that submits after another one marks the other's end first (SharedStreams), once the other's call that is
// being submitted is. A session that is alone marks nothing. The stream that belongs to a thread is marked
// after each call, by that thread: nobody else can name it.
//
// A mark that somebody waits for is never recorded again: the wait would be for what came after it began.
// Where the driver has no room for a mark, the stream that ends, or is the thread's own, is waited for at
// once; a wait of the program's is refused; and who is about to free memory waits for everybody, since less
// would be wrong.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda_abi.h"
#include "protocol.h"

namespace worker {

struct Worker;
class Session;

class OwnWork {
  public:
    OwnWork(Worker& worker, Session& session) : worker_(worker), session_(session) {}
    ~OwnWork();
    OwnWork(const OwnWork&) = delete;
    OwnWork& operator=(const OwnWork&) = delete;

    // A call in the context of `device`, which is the thread's, has used the default stream, or the calling
    // thread's own one.
    void used_default(uint8_t device);
    void used_own(uint8_t device);
    // The stream ends, though its work may go on. It is still among the session's: who looks finds it there,
    // or its mark here. The thread's context is the stream's.
    void stream_ends(CUstream stream, uint8_t device);
    // What a posted call may take to be submitted, until another session goes on without waiting for it.
    static constexpr std::chrono::microseconds kSubmission{500};
    // Another session is about to submit in the context of `device`, which is the thread's.
    void others_submit(uint8_t device);
    // Of all, or of what an operation of the default stream comes after: waits, or answers NOT_READY where it
    // has not ended; the first error of the work. What is the program's to be told stays (NewsKept).
    enum class Part { all, blocking };
    enum class Look { wait, ask };
    CUresult look(uint8_t device, Part part, Look look);
    // For what frees memory: of all, and more where not all of it is marked.
    CUresult wait(uint8_t device);

    // A lane's thread ends.
    void thread_ends();

    // Frees an allocation that no work of the session uses any more.
    CUresult free(uint8_t device, uint64_t address);

  private:
    // An event; whoever waits for it keeps it.
    using Mark = std::shared_ptr<CUevent_st>;
    struct Left {
        Mark end;
        uint8_t device;
        bool blocking;
    };
    CUresult record(Mark& mark, CUstream stream);
    CUresult mark_default(uint8_t device);
    CUresult mark_streams(uint8_t device, Part part, std::vector<Mark>& ends);
    CUresult ask_streams(uint8_t device, Part part);
    CUresult look(uint8_t device, Part part, Look look, CUresult& unmarked);
    void reap();

    Worker& worker_;
    Session& session_;
    friend class SharedStreams;
    // Bits, by device: there is work in the default stream that is not marked; a posted call is under way.
    enum State : uint8_t { kPending = 1, kSubmitting = 2 };
    std::array<std::atomic<uint8_t>, wire::kMaxDevices> state_{};
    std::mutex mutex_;  // of what follows
    std::array<Mark, wire::kMaxDevices> defaults_{};
    std::map<std::pair<std::thread::id, uint8_t>, Mark> threads_;
    std::array<CUstream, wire::kMaxDevices> frees_{};
    std::vector<Left> left_;  // of streams and threads that have ended
};

// Which session has submitted last to each GPU's context.
class SharedStreams {
  public:
    // While it lives, `session` submits a posted call, of which it has one at a time. The thread's context is
    // that of `device`.
    class Turn {
      public:
        Turn(SharedStreams& streams, Session& session, uint8_t device);
        ~Turn();
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

      private:
        std::atomic<uint8_t>& state_;
    };
    bool is_last(const Session& session, uint8_t device) const {
        return last_[device].who.load() == &session;
    }
    void forget(const Session& session);

  private:
    void enter(Session& session, uint8_t device);

    struct Last {
        std::atomic<const Session*> who{nullptr};
        std::mutex mutex;
        std::shared_ptr<Session> session;
    };
    std::array<Last, wire::kMaxDevices> last_;
};

}  // namespace worker
