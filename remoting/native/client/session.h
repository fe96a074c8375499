// What this process has at the GPU server: one session, many lanes. Never destroyed, because libraries call
// into the driver while the process exits.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_abi.h"
#include "flusher.h"
#include "hello.h"
#include "protocol.h"

namespace client {

class Lane;

class Session {
  public:
    static constexpr uint32_t kMaxLanes = 256;
    static constexpr std::chrono::seconds kConnectTime{10};

    static Session& get();

    // cuInit: connects with what the environment says. Once; later calls return what the first one did.
    CUresult open();

    // CUDA_SUCCESS while the worker can be asked; otherwise what every call that needs it returns: not yet
    // initialised, after a fork, the connection lost, or the error that has ended the context.
    CUresult error() const { return static_cast<CUresult>(error_.load(std::memory_order_acquire)); }

    // Whether cuInit has succeeded in this process: what the client knows itself may then be asked, whatever
    // has become of the connection.
    bool initialised() const { return initialised_.load(std::memory_order_acquire); }

    const std::vector<wire::DeviceSnapshot>& devices() const { return devices_; }
    int driver_version() const { return driver_version_; }

    // The calling thread's lane, opened or taken over when it has none. Null when that fails; the other
    // threads go on.
    Lane* lane();
    // A thread has ended: its lane serves the next new thread.
    void give_back(Lane* lane);

    // Numbers for `order` in the frame header; see wire/protocol.h.
    uint64_t next_order() { return posted_.fetch_add(1, std::memory_order_seq_cst) + 1; }
    uint64_t posted() const { return posted_.load(std::memory_order_seq_cst); }

    // The connection broke: every later call fails. The user is told once.
    void lose(std::string_view reason);
    // Takes note of a status from the worker: one that ends a context is returned by every later call.
    void note(CUresult status);

    Flusher& flusher() { return flusher_; }
    // Sends what is left in any lane's buffer. Whether there was anything. For the flusher.
    bool flush_all();

    // In the child of a fork: no call may use the parent's connections.
    void forget_after_fork();

  private:
    Session() = default;
    CUresult connect();
    bool read_welcome(const std::vector<std::byte>& welcome, std::string& error);
    Lane* open_lane(std::string& error, bool& gone);
    CUresult refuse(CUresult status, std::string_view text);

    std::atomic<int> error_{CUDA_ERROR_NOT_INITIALIZED};
    std::atomic<bool> initialised_{false};
    std::atomic<uint64_t> posted_{0};
    std::atomic<bool> told_lost_{false};
    std::atomic<uint32_t> lane_count_{0};
    std::atomic<Lane*> lanes_[kMaxLanes]{};
    Flusher flusher_;

    std::mutex mutex_;  // of what follows
    bool attempted_ = false;
    bool forked_ = false;
    CUresult first_result_ = CUDA_SUCCESS;
    wire::Credentials credentials_;
    wire::SessionId id_{};
    std::vector<Lane*> idle_;
    std::vector<wire::DeviceSnapshot> devices_;
    int driver_version_ = 0;
};

}  // namespace client
