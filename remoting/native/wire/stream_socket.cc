#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>

#include "transport.h"

namespace wire {
namespace {

// Drops `bytes` from the front; the number of parts that are left, in place.
int advance(iovec*& parts, int count, size_t bytes) {
    while (count > 0 && bytes >= parts->iov_len) {
        bytes -= parts->iov_len;
        ++parts;
        --count;
    }
    if (count > 0) {
        parts->iov_base = static_cast<char*>(parts->iov_base) + bytes;
        parts->iov_len -= bytes;
    }
    return count;
}

// A host that lost its power or its network sends no end: without this a call would wait for it for ever. No
// TCP_USER_TIMEOUT: it would also end a lane whose peer is there and, behind a long kernel, does not read.
void notice_lost_peer(int fd) {
    const int on = 1, idle_s = 30, between_s = 10, times = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

// One call's waiting. Without a Waiting a limit on the socket's time is the caller's, and a failure.
class Wait {
  public:
    explicit Wait(Waiting* waiting) : waiting_(waiting) {}
    ~Wait() {
        if (told_) waiting_->over();
    }
    // After a system call that failed: whether it is to be made again.
    bool goes_on() {
        if (errno != EINTR && !(waiting_ && errno == EAGAIN)) return false;
        if (waiting_) waiting_->goes_on();
        told_ = waiting_ != nullptr;
        return true;
    }

  private:
    Waiting* waiting_;
    bool told_ = false;
};

class StreamSocket final : public Transport {
  public:
    explicit StreamSocket(int fd) : fd_(fd) {
        const int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);  // fails, rightly, on unix sockets
        const int bytes = 4 << 20;                                   // the kernel takes what its limit allows
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
        notice_lost_peer(fd);
    }
    ~StreamSocket() override { close(fd_); }

    bool send(iovec* parts, int count) override {
        count = advance(parts, count, 0);
        Wait wait(waiting_);
        while (count > 0) {
            msghdr message{};
            message.msg_iov = parts;
            message.msg_iovlen = static_cast<size_t>(std::min(count, IOV_MAX));
            const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
            if (sent < 0 && wait.goes_on()) continue;
            if (sent < 0) return false;
            count = advance(parts, count, static_cast<size_t>(sent));
        }
        return true;
    }

    size_t receive(iovec* parts, int count, size_t least) override {
        size_t total = 0;
        count = advance(parts, count, 0);
        Wait wait(waiting_);
        while (count > 0 && (total == 0 || total < least)) {
            const ssize_t got = read(parts, count);
            if (got == 0) return 0;
            if (got < 0 && wait.goes_on()) continue;
            if (got < 0) return 0;
            total += static_cast<size_t>(got);
            count = advance(parts, count, static_cast<size_t>(got));
        }
        return total;
    }

    void tell(Waiting* waiting, long microseconds) override {
        const timeval limit{microseconds / 1'000'000, microseconds % 1'000'000};
        setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        waiting_ = waiting;
    }

    bool hung_up() override {
        pollfd entry{fd_, POLLRDHUP, 0};
        return poll(&entry, 1, 0) > 0;
    }

    void shut() override { shutdown(fd_, SHUT_RDWR); }

  private:
    ssize_t read(iovec* parts, int count) {
        msghdr message{};
        message.msg_iov = parts;
        message.msg_iovlen = static_cast<size_t>(std::min(count, IOV_MAX));
        return recvmsg(fd_, &message, 0);
    }

    int fd_;
    Waiting* waiting_ = nullptr;
};

}  // namespace

std::unique_ptr<Transport> stream_socket(int fd) {
    return std::make_unique<StreamSocket>(fd);
}

}  // namespace wire
