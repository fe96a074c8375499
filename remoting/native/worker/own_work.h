// What of the work in the lease's contexts is one session's. Sessions share a context a GPU and its default
// stream, so who waits for the whole context waits for kernels of others, which may never end. A session's
// end waits for this instead, and so do its program's waits where it is not alone (synchronize.cc).
//
// Own streams are waited for as they are. In the default stream the end of a session's work is marked by an
// event, which must come before what others submit, since it waits for all that came before it: so a session
// that submits after another one marks the other's end first (SharedStreams). A session that is alone marks
// nothing. The stream that belongs to a thread is marked after each call, by that thread: nobody else can
// name it.
#pragma once

#include <array>
#include <atomic>
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

    // In all of these the calling thread's context is that of `device`.

    // A call has used the default stream, or the calling thread's own one.
    void used_default(uint8_t device);
    void used_own(uint8_t device);
    // The stream ends, though its work may go on.
    void stream_ends(CUstream stream);
    // Another session is about to submit.
    void mark_default(uint8_t device);
    // Of all, or of what an operation of the default stream comes after: waits, or answers NOT_READY where it
    // has not ended; the first error of the work. What is the program's to be told stays (NewsKept).
    enum class Part { all, blocking };
    enum class Look { wait, ask };
    CUresult look(uint8_t device, Part part, Look look);
    CUresult wait(uint8_t device) { return look(device, Part::all, Look::wait); }

    // A lane's thread ends.
    void thread_ends();

    // Frees an allocation that no work of the session uses any more.
    CUresult free(uint8_t device, uint64_t address);

  private:
    // An event; whoever waits for it keeps it.
    using Mark = std::shared_ptr<CUevent_st>;
    CUresult record(Mark& mark, CUstream stream);
    void reap();

    Worker& worker_;
    Session& session_;
    std::array<std::atomic<bool>, wire::kMaxDevices> pending_{};  // in the default stream, and not marked
    std::mutex mutex_;                                            // of what follows
    std::array<Mark, wire::kMaxDevices> defaults_{};
    std::map<std::pair<std::thread::id, uint8_t>, Mark> threads_;
    std::array<CUstream, wire::kMaxDevices> frees_{};
    std::vector<Mark> left_;  // of streams and threads that have ended
};

// Which session has submitted last to each GPU's context.
class SharedStreams {
  public:
    // `session` is about to submit.
    void enter(Session& session, uint8_t device);
    bool is_last(const Session& session, uint8_t device) const {
        return last_[device].who.load(std::memory_order_acquire) == &session;
    }
    void forget(const Session& session);

  private:
    struct Last {
        std::atomic<const Session*> who{nullptr};
        std::mutex mutex;
        std::shared_ptr<Session> session;
    };
    std::array<Last, wire::kMaxDevices> last_;
};

}  // namespace worker
