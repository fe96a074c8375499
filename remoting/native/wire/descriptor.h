// A file descriptor that is owned, and how one comes over a Unix-domain socket.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <utility>

namespace wire {

class Descriptor {
  public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    ~Descriptor() { reset(-1); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    int fd() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }
    void reset(int fd) {
        if (fd_ >= 0) close(fd_);
        fd_ = fd;
    }

  private:
    int fd_;
};

// recvmsg with `flags`, for bytes that one descriptor may come with: `descriptor` holds it then. Of several
// the last is kept and the others are closed, so that a peer cannot fill this process's table. As recvmsg it
// gives the number of bytes, 0 at the end, or -1 and errno.
ssize_t receive_with_descriptor(int fd, std::span<uint8_t> bytes, int flags, Descriptor& descriptor);

// Sends `bytes` and a descriptor along, without waiting. False when the peer does not take it now.
bool send_with_descriptor(int fd, std::span<const uint8_t> bytes, int descriptor);

}  // namespace wire
