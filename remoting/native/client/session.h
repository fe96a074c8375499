// What this process has at the GPU server: one session, many lanes. Never destroyed, because libraries call
// into the driver while the process exits; what it holds of one life goes with that (life.h). Its states:
//
//   none ──cuInit──► alive ──fault, connection lost──► failed       none, ended: no lane, no session
//                      ▲ └──────────gkNewLife──────┬──────┘         alive: error() is CUDA_SUCCESS
//                      └──call without a handle── ended ◄┘          failed: error() is why, until it is ended
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_abi.h"
#include "flusher.h"
#include "hello.h"
#include "presence.h"
#include "protocol.h"
#include "stream_knowledge.h"

namespace client {

class Lane;

class Session {
  public:
    static constexpr uint32_t kMaxLanes = 512;
    static constexpr int kMostTold = 5;
    static constexpr std::chrono::seconds kConnectTime{10};

    static Session& get();

    // cuInit: begins a life with what the attach point or the environment says. Once a life; later calls
    // return what the first one did.
    CUresult open();
    // For calls that need no handle: begins another life where one was ended. Only where no lock is held, and
    // nothing was looked up.
    CUresult go_on();
    // gkNewLife and gkLife (life.h).
    CUresult end_life();
    uint64_t life(int* state) const;
    uint64_t lives_ended() const { return ends_.load(std::memory_order_acquire); }

    // CUDA_SUCCESS while the worker can be asked; otherwise what every call that needs it returns: not yet
    // initialised, after a fork, the connection lost, the error that has ended the context, or
    // CUDA_ERROR_CONTEXT_IS_DESTROYED between two lives.
    CUresult error() const {
        const auto status = static_cast<CUresult>(error_.load(std::memory_order_acquire));
        if (status == CUDA_ERROR_NOT_INITIALIZED) tell_forked_child();
        return status;
    }

    // Whether cuInit has succeeded in this process: what the client knows itself may then be asked, whatever
    // has become of the connection.
    bool initialised() const {
        if (initialised_.load(std::memory_order_acquire)) return true;
        tell_forked_child();
        return false;
    }

    // Those that the process may see (CUDA_VISIBLE_DEVICES), in its order. Everything in the client has these
    // numbers; a device's number in the lease is for the wire alone.
    const std::vector<wire::DeviceSnapshot>& devices() const { return devices_; }
    uint8_t number_in_lease(uint8_t device) const { return numbers_in_lease_[device]; }
    // For the lease's other processes to see: this one has so much more memory on a device, or less.
    void count_memory(uint8_t device, int64_t bytes) { presence_.count(number_in_lease(device), bytes); }
    int driver_version() const { return driver_version_; }

    // The calling thread's lane, opened or taken over when it has none. Null when that fails; the other
    // threads go on.
    Lane* lane();
    // A thread has ended: its lane serves the next new thread.
    void give_back(Lane* lane);

    // Numbers for `order` in the frame header; see wire/protocol.h.
    uint64_t next_order() { return posted_.fetch_add(1, std::memory_order_seq_cst) + 1; }
    uint64_t posted() const { return posted_.load(std::memory_order_seq_cst); }

    StreamKnowledge& streams_known() { return streams_known_; }

    // The lease's slice file, the caller's to close; -1 where there is none on this host. Asks the agent.
    int open_slice_file() { return open_here(wire::open_slice_file); }
    // The same of the socket whose other end the worker has.
    int open_passage() { return open_here(wire::open_passage); }

    // The connection broke: every later call fails. The user is told once.
    void lose(std::string_view reason);
    // Takes note of a status from the worker: one that ends a context is returned by every later call.
    void note(CUresult status, bool context_goes_on);

    // The session's running kernels end. CUDA_ERROR_NOT_SUPPORTED where kernels cannot be stopped alone; with
    // `end_worker` the worker ends there, and the session is lost.
    CUresult interrupt(bool end_worker);

    Flusher& flusher() { return flusher_; }
    // Sends what is left in any lane's buffer. Whether there was anything. For the flusher.
    bool flush_all();

    // In the child of a fork: no call may use the parent's connections.
    void forget_after_fork();

  private:
    int open_here(int (*open)(const wire::Credentials&, const wire::SessionId&, wire::Deadline));
    // What a life begins with, before anybody can see it.
    struct Beginning {
        wire::Credentials credentials;
        wire::SessionId id{};
        Lane* lane = nullptr;
        std::vector<wire::DeviceSnapshot> devices;  // of the lease
        int driver_version = 0;
    };

    Session() = default;
    CUresult begin();
    static CUresult connect(Beginning& fresh);
    static Lane* open_lane(const Beginning& of, uint32_t number, std::vector<std::byte>& welcome,
                           std::string& error, bool& gone);
    static bool read_welcome(const std::vector<std::byte>& welcome, Beginning& fresh, std::string& error);
    void take_over(Beginning& fresh);
    // False when the program's CUDA_VISIBLE_DEVICES leaves it none.
    bool see_devices();
    Lane* another_lane(std::string& error, bool& gone);
    Lane* idle_lane(std::string& error, bool& gone);
    void shut_lanes();
    // Whether there is no life; a beginning one then begins again.
    bool nothing_to_end();
    void begin_from_nothing();
    // With nobody within (life.h).
    void forget_life();
    void drop_lanes();
    // Says once in the child of a fork why no call works there. Elsewhere nothing.
    void tell_forked_child() const;

    std::atomic<int> error_{CUDA_ERROR_NOT_INITIALIZED};
    std::atomic<bool> initialised_{false};
    std::atomic<bool> ended_{false};  // a life, and no other has begun
    std::atomic<uint64_t> ends_{0};   // calls of gkNewLife
    std::atomic<uint64_t> posted_{0};
    std::atomic<bool> told_lost_{false};
    std::atomic<int> threads_told_{0};  // that they can have no lane; kMostTold of them
    std::atomic<bool> forked_{false};
    mutable std::atomic<bool> told_forked_{false};
    std::atomic<uint32_t> lane_count_{0};
    std::atomic<Lane*> lanes_[kMaxLanes]{};
    Flusher flusher_;
    Presence presence_;
    StreamKnowledge streams_known_;

    std::mutex ending_;  // one thread ends a life
    std::mutex
        beginning_;     // one thread begins one, and those that want the same wait; never with mutex_ held
    std::mutex mutex_;  // of what follows
    bool attempted_ = false;
    CUresult first_result_ = CUDA_SUCCESS;
    wire::Credentials credentials_;
    wire::SessionId id_{};
    std::vector<Lane*> idle_;
    std::vector<wire::DeviceSnapshot> all_devices_;  // of the lease
    std::vector<wire::DeviceSnapshot> devices_;
    uint8_t numbers_in_lease_[wire::kMaxDevices]{};
    int driver_version_ = 0;
};

}  // namespace client
