#include "descriptor.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstring>

namespace wire {

ssize_t receive_with_descriptor(int fd, std::span<uint8_t> bytes, int flags, Descriptor& descriptor) {
    iovec part{bytes.data(), bytes.size()};
    alignas(
        cmsghdr) char control[CMSG_SPACE(sizeof(int))];  // which has room for two where int has four bytes
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
    if (got < 0) return got;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int received;
            memcpy(&received, CMSG_DATA(head) + i * sizeof received, sizeof received);
            descriptor.reset(received);
        }
    }
    return got;
}

bool send_with_descriptor(int fd, std::span<const uint8_t> bytes, int descriptor) {
    iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)]{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

}  // namespace wire
