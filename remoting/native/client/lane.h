// One thread's connection to the worker: a buffer of posted calls, and the asking of calls.
//
// The owner thread appends, asks and receives. Two threads may send: the owner, and the flusher, which sends
// what the owner left in the buffer (flusher.h). `sending_` makes a send one piece; `buffer_lock_` guards the
// buffer and is never held during a system call, so an append never waits for the network. The bytes leave in
// the order of the appends, because whoever sends swaps the buffer out while it holds `sending_`.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "long_wait.h"
#include "protocol.h"
#include "transport.h"

namespace client {

class SpinLock {
  public:
    void lock() {
        while (held_.exchange(true, std::memory_order_acquire)) {
            while (held_.load(std::memory_order_relaxed)) __builtin_ia32_pause();
        }
    }
    void unlock() { held_.store(false, std::memory_order_release); }

  private:
    std::atomic<bool> held_{false};
};

class Lane {
  public:
    Lane(std::unique_ptr<wire::Transport> transport, int fd);

    // Receives the worker's first words. False, with a text for the user in `error`, when it refuses or is
    // gone; `gone` tells the two apart.
    bool receive_welcome(std::vector<std::byte>& welcome, std::string& error, bool& gone);

    // Appends a frame made of `head` and `rest`; sends at once what is too large to be worth a copy. False
    // when the connection is broken.
    bool post(const iovec* parts, int count, size_t bytes);

    // Sends what is left in the buffer. With `wait` false, does nothing while another thread is sending.
    bool flush(bool wait);

    // Sends the buffer and then the parts.
    bool send_now(const iovec* parts, int count);

    // Receives a reply: header, then the payload into lane-owned memory that lasts until the next call. False
    // when the connection is broken.
    bool receive(wire::ReplyHeader& header, std::span<const std::byte>& payload);

    // Receives a reply whose payload, when the status is 0, is exactly `bytes` to be put at `to`.
    bool receive_into(wire::ReplyHeader& header, void* to, size_t bytes);

    // The same of one of several replies that are under way: nothing of the next one is read.
    bool receive_one_into(wire::ReplyHeader& header, void* to, size_t bytes);

    // The reply to kOpTakeNotices; what receive() has given stays as it is.
    bool receive_notices(std::vector<std::byte>& notices);

    // Of the owner thread, after each reply: notices wait for the session; the context goes on although the
    // status says otherwise.
    bool notices_wait = false;
    bool context_goes_on = false;

    // A buffer as full as this is sent without waiting for more.
    static constexpr size_t kSendAt = 16 * 1024;
    size_t unsent() const { return fill_.load(std::memory_order_seq_cst); }
    bool has_unsent() const { return fill_.load(std::memory_order_seq_cst) > 0; }
    void shut() { transport_->shut(); }
    bool hung_up() { return transport_->hung_up(); }
    int fd() const { return fd_; }

    // Of the owner thread: nothing was posted since the last reply, so the worker has done with all of it.
    bool quiet = true;

    // Of the owner thread, when it is one of the program's: what happens in its long waits (long_wait.h).
    void watch_waits() { transport_->tell(&long_wait_, wire::kLongWaitMicroseconds); }
    void leave_waits() { transport_->tell(nullptr, 0); }
    LongWait& long_wait() { return long_wait_; }

    // Of the owner thread: when it last sent a posted call itself, in nanoseconds.
    int64_t last_direct_send = 0;

  private:
    static constexpr size_t kBuffer = 64 * 1024;
    static constexpr size_t kCopied = 16 * 1024;  // frames up to this size are copied to the buffer

    bool send_locked(const iovec* parts, int count);
    bool receive_to(wire::ReplyHeader& header, std::vector<std::byte>& buffer);
    void take_flags(wire::ReplyHeader& header);
    void append(const iovec* parts, int count, size_t bytes);

    LongWait long_wait_;
    std::unique_ptr<wire::Transport> transport_;
    int fd_;
    std::mutex sending_;
    SpinLock buffer_lock_;
    std::unique_ptr<std::byte[]> filling_, spare_;  // spare_ belongs to who holds sending_
    std::atomic<size_t> fill_{0};
    std::vector<std::byte> reply_;
};

}  // namespace client
