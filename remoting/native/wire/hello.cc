#include "hello.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "descriptor.h"

namespace wire {
namespace {

constexpr std::array<uint8_t, 8> magic = {'G', 'P', 'U', 'K', 'H', 'E', 'L', 'O'};

// Offsets in the Hello.
constexpr size_t version_at = 8;
constexpr size_t flags_at = 10;
constexpr size_t lane_at = 12;
constexpr size_t session_at = 16;
constexpr size_t epoch_at = 32;
constexpr size_t lease_at = 40;
constexpr size_t secret_at = 80;
constexpr size_t zero_at = 112;

void put(uint8_t* to, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}

uint64_t get(const uint8_t* from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(from[i]) << (8 * i);
    return value;
}

bool is_lease_id(std::string_view text) {
    return !text.empty() && text.size() <= lease_bytes &&
           std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool parse_number(std::string_view text, uint64_t& value) {
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    return status == std::errc() && end == text.data() + text.size();
}

bool parse_hex(std::string_view text, std::span<uint8_t> bytes) {
    if (text.size() != 2 * bytes.size()) return false;
    for (size_t i = 0; i < bytes.size(); ++i) {
        const char* digits = text.data() + 2 * i;
        const auto [end, status] = std::from_chars(digits, digits + 2, bytes[i], 16);
        if (status != std::errc() || end != digits + 2) return false;
    }
    return true;
}

// Milliseconds for poll(), rounded up, so that a wait never ends just before its deadline.
int milliseconds_left(Deadline deadline) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 24 * 3600 * 1000));
}

// True when `fd` is ready for `events` or broken; false at the deadline (errno is ETIMEDOUT).
bool wait_for(int fd, short events, Deadline deadline) {
    for (;;) {
        pollfd entry{fd, events, 0};
        const int ready = poll(&entry, 1, milliseconds_left(deadline));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
        if (std::chrono::steady_clock::now() >= deadline) {
            errno = ETIMEDOUT;
            return false;
        }
    }
}

// A unix socket whose backlog is full says EAGAIN and cannot be polled for room: ask again shortly.
void pause_before_retry() {
    const timespec time{0, 5'000'000};
    nanosleep(&time, nullptr);
}

bool connect_socket(int fd, const sockaddr* name, socklen_t length, Deadline deadline) {
    for (;;) {
        if (connect(fd, name, length) == 0 || errno == EISCONN) return true;
        if (errno == EAGAIN) {
            if (std::chrono::steady_clock::now() >= deadline) return false;
            pause_before_retry();
            continue;
        }
        if (errno != EINPROGRESS && errno != EINTR && errno != EALREADY) return false;
        if (!wait_for(fd, POLLOUT, deadline)) return false;
        int status = 0;
        socklen_t size = sizeof status;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &status, &size) != 0) return false;
        errno = status;
        return status == 0;
    }
}

int connect_unix(const Address& address, Deadline deadline) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, address.path.data(), address.path.size());
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.fd() < 0) return -1;
    if (!connect_socket(socket.fd(), reinterpret_cast<sockaddr*>(&name), sizeof name, deadline)) return -1;
    return socket.release();
}

int connect_tcp(const Address& address, Deadline deadline, std::string& error) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int status = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
    if (status != 0) {
        error = gai_strerror(status);
        return -1;
    }
    int fd = -1;
    for (const addrinfo* entry = found; entry != nullptr && fd < 0; entry = entry->ai_next) {
        Descriptor socket(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (socket.fd() < 0 || !connect_socket(socket.fd(), entry->ai_addr, entry->ai_addrlen, deadline))
            continue;
        const int on = 1;
        setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        fd = socket.release();
    }
    const int failure = errno;
    freeaddrinfo(found);
    errno = failure;
    return fd;
}

bool send_all(int fd, std::span<const uint8_t> bytes, Deadline deadline) {
    while (!bytes.empty()) {
        const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            bytes = bytes.subspan(static_cast<size_t>(sent));
        } else if (errno == EAGAIN) {
            if (!wait_for(fd, POLLOUT, deadline)) return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

// Reads exactly as many bytes as asked for, as those that follow are not ours; and the descriptor that comes
// with them, if one is wanted.
bool receive_all(int fd, std::span<uint8_t> bytes, Deadline deadline, Descriptor* descriptor = nullptr) {
    while (!bytes.empty()) {
        const ssize_t got = descriptor == nullptr
                                ? recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT)
                                : receive_with_descriptor(fd, bytes, MSG_DONTWAIT, *descriptor);
        if (got > 0) {
            bytes = bytes.subspan(static_cast<size_t>(got));
        } else if (got == 0) {
            errno = ECONNRESET;
            return false;
        } else if (errno == EAGAIN) {
            if (!wait_for(fd, POLLIN, deadline)) return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

std::string no_answer(const Address& address, int error) {
    return "The GPU server at " + address.text() + " gave no answer (" + strerror(error) +
           "). It may be restarting: try again, or ask for a new GPU by restarting the kernel.";
}

Opened open(const Credentials& credentials, const SessionId& session, uint16_t flags, uint32_t lane,
            Deadline deadline) {
    Opened opened;
    Descriptor socket(connect_to(credentials.address, deadline, opened.text));
    if (socket.fd() < 0) return opened;

    Hello hello{flags, lane, session, credentials.epoch, credentials.lease, credentials.secret};
    HelloBytes bytes = encode_hello(hello);
    const bool sent = send_all(socket.fd(), bytes, deadline);
    const int send_error = errno;
    explicit_bzero(bytes.data(), bytes.size());
    explicit_bzero(hello.secret.data(), hello.secret.size());

    // An agent that refuses early closes its end; its answer is still there to be read.
    std::array<uint8_t, 8> head{};
    Descriptor file;
    const bool wants_file = flags == hello_slice_file || flags == hello_passage;
    if (!receive_all(socket.fd(), head, deadline, wants_file ? &file : nullptr)) {
        opened.text = no_answer(credentials.address, sent ? errno : send_error);
        return opened;
    }
    const auto status = static_cast<uint32_t>(get(head.data(), 4));
    const auto length = static_cast<uint32_t>(get(head.data() + 4, 4));
    const bool is_lane = flags == 0;
    if (status > static_cast<uint32_t>(Answer::too_many) || length > answer_text_limit ||
        (is_lane && status == 0 && length != 0)) {
        opened.text =
            "What answers at " + credentials.address.text() + " is not a GPU server agent of this version.";
        return opened;
    }
    std::string text(length, '\0');
    if (!receive_all(socket.fd(), {reinterpret_cast<uint8_t*>(text.data()), text.size()}, deadline)) {
        opened.text = no_answer(credentials.address, errno);
        return opened;
    }
    opened.answer = static_cast<Answer>(status);
    opened.text = std::move(text);
    if (opened.answer != Answer::ok) return opened;
    if (is_lane) opened.fd = socket.release();
    if (wants_file) opened.fd = file.release();
    return opened;
}

// Over TCP an agent on this host says where its file is to be had: the name of an abstract socket that it has
// just made, and a ticket that is good there once. The secret is not told there.
int fetch_file(std::string_view text, Deadline deadline) {
    constexpr size_t kName = 32, kTicket = 32;
    constexpr std::string_view kPrefix = "gpu-kernels slice ";
    std::array<uint8_t, kTicket> ticket{};
    if (text.size() != kName + 2 * kTicket || !parse_hex(text.substr(kName), ticket)) return -1;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    char* const at = name.sun_path + 1;  // the first byte is 0
    const char* const end = std::copy_n(text.data(), kName, std::copy(kPrefix.begin(), kPrefix.end(), at));
    const auto length = static_cast<socklen_t>(end - reinterpret_cast<const char*>(&name));
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    Descriptor file;
    std::array<uint8_t, 1> there{};
    if (socket.fd() < 0 ||
        !connect_socket(socket.fd(), reinterpret_cast<const sockaddr*>(&name), length, deadline) ||
        !send_all(socket.fd(), ticket, deadline) || !receive_all(socket.fd(), there, deadline, &file)) {
        return -1;
    }
    return file.release();
}

}  // namespace

std::string Address::text() const {
    if (is_unix) return "unix://" + path;
    const bool is_v6 = host.find(':') != std::string::npos;
    return "tcp://" + (is_v6 ? "[" + host + "]" : host) + ":" + port;
}

bool parse_address(std::string_view text, Address& address, std::string& error) {
    const auto refuse = [&](const char* why) {
        error.assign(1, '"').append(text.substr(0, 200)).append("\" is not the address of a GPU server (");
        error.append(why).append("); it must read tcp://HOST:PORT, tcp://[IPV6]:PORT or unix:///PATH");
        return false;
    };
    if (text.find('\0') != std::string_view::npos) return refuse("it holds a NUL byte");
    if (text.starts_with("unix://")) {
        const std::string_view path = text.substr(7);
        if (!path.starts_with('/')) return refuse("the path is not absolute");
        if (path.size() < 2) return refuse("the path is empty");
        if (path.size() >= sizeof(sockaddr_un::sun_path)) return refuse("the path is longer than 107 bytes");
        address = Address{true, {}, {}, std::string(path)};
        return true;
    }
    if (!text.starts_with("tcp://")) return refuse("it begins with neither tcp:// nor unix://");
    const std::string_view rest = text.substr(6);
    const size_t colon = rest.rfind(':');
    if (colon == std::string_view::npos) return refuse("the port is missing");
    std::string_view host = rest.substr(0, colon);
    const std::string_view port = rest.substr(colon + 1);
    uint64_t number = 0;
    if (!parse_number(port, number) || number < 1 || number > 65535)
        return refuse("the port is not 1 to 65535");
    if (host.starts_with('[') && host.ends_with(']')) {
        host = host.substr(1, host.size() - 2);
        if (host.find(':') == std::string_view::npos) return refuse("the brackets hold no IPv6 address");
    } else if (host.find_first_of(":[]") != std::string_view::npos) {
        return refuse("an IPv6 address needs brackets");
    }
    if (host.empty()) return refuse("the host is missing");
    if (host.find_first_of("/@ \t\r\n") != std::string_view::npos) return refuse("the host is malformed");
    address = Address{false, std::string(host), std::to_string(number), {}};
    return true;
}

HelloBytes encode_hello(const Hello& hello) {
    HelloBytes bytes{};
    std::copy(magic.begin(), magic.end(), bytes.begin());
    put(&bytes[version_at], hello_version, 2);
    put(&bytes[flags_at], hello.flags, 2);
    put(&bytes[lane_at], hello.lane, 4);
    std::copy(hello.session.begin(), hello.session.end(), bytes.begin() + session_at);
    put(&bytes[epoch_at], hello.epoch, 8);
    std::copy_n(hello.lease.begin(), std::min(hello.lease.size(), lease_bytes), bytes.begin() + lease_at);
    std::copy(hello.secret.begin(), hello.secret.end(), bytes.begin() + secret_at);
    return bytes;
}

bool decode_hello(std::span<const uint8_t, hello_bytes> bytes, Hello& hello) {
    if (!std::equal(magic.begin(), magic.end(), bytes.begin())) return false;
    if (get(&bytes[version_at], 2) != hello_version) return false;
    const auto zero = bytes.subspan(zero_at);
    if (std::any_of(zero.begin(), zero.end(), [](uint8_t byte) { return byte != 0; })) return false;

    const auto field = bytes.subspan(lease_at, lease_bytes);
    const auto end = std::find(field.begin(), field.end(), 0);
    const std::string lease(field.begin(), end);
    if (!is_lease_id(lease)) return false;
    if (std::any_of(end, field.end(), [](uint8_t byte) { return byte != 0; })) return false;

    hello.flags = static_cast<uint16_t>(get(&bytes[flags_at], 2));
    hello.lane = static_cast<uint32_t>(get(&bytes[lane_at], 4));
    std::copy_n(bytes.begin() + session_at, session_bytes, hello.session.begin());
    hello.epoch = get(&bytes[epoch_at], 8);
    hello.lease = lease;
    std::copy_n(bytes.begin() + secret_at, secret_bytes, hello.secret.begin());
    return true;
}

bool credentials_from_environment(Credentials& credentials, std::string& error) {
    const char* agent = getenv("GPU_KERNELS_AGENT");
    const char* lease = getenv("GPU_KERNELS_LEASE");
    const char* epoch = getenv("GPU_KERNELS_EPOCH");
    const char* secret = getenv("GPU_KERNELS_SECRET");
    if (agent == nullptr || lease == nullptr || epoch == nullptr || secret == nullptr) {
        error =
            "This process has no GPU: GPU_KERNELS_AGENT, GPU_KERNELS_LEASE, GPU_KERNELS_EPOCH and "
            "GPU_KERNELS_SECRET "
            "are not all set. Choose a GPU kernel, or start the program with: jupyter gpu run -- COMMAND";
        return false;
    }
    return make_credentials(agent, lease, epoch, secret, credentials, error);
}

bool make_credentials(std::string_view agent, std::string_view lease, std::string_view epoch,
                      std::string_view secret, Credentials& credentials, std::string& error) {
    if (!parse_address(agent, credentials.address, error)) {
        error = "GPU_KERNELS_AGENT: " + error;
        return false;
    }
    if (!is_lease_id(lease)) {
        error = "GPU_KERNELS_LEASE is not a lease id (1 to 40 printable ASCII characters)";
        return false;
    }
    if (!parse_number(epoch, credentials.epoch)) {
        error = "GPU_KERNELS_EPOCH is not a number from 0 to 2^64 - 1";
        return false;
    }
    if (!parse_hex(secret, credentials.secret)) {
        error = "GPU_KERNELS_SECRET is not 64 hexadecimal digits";
        return false;
    }
    credentials.lease = lease;
    return true;
}

SessionId random_session() {
    SessionId session{};
    // At most 256 bytes come whole or not at all; only a kernel that has just booted makes this wait.
    while (getrandom(session.data(), session.size(), 0) < 0 && errno == EINTR) {
    }
    return session;
}

int connect_to(const Address& address, Deadline deadline, std::string& error) {
    std::string why;
    const int fd = address.is_unix ? connect_unix(address, deadline) : connect_tcp(address, deadline, why);
    if (fd < 0) {
        if (why.empty()) why = strerror(errno);
        error = "The GPU server at " + address.text() + " cannot be reached (" + why +
                "). It may be down or restarting: try again, or ask for a new GPU by restarting the kernel.";
        return -1;
    }
    const int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    return fd;
}

Opened open_lane(const Credentials& credentials, const SessionId& session, uint32_t lane, Deadline deadline) {
    return open(credentials, session, 0, lane, deadline);
}

Opened query_status(const Credentials& credentials, const SessionId& session, Deadline deadline) {
    return open(credentials, session, hello_status_query, 0, deadline);
}

namespace {

int open_descriptor(const Credentials& credentials, const SessionId& session, uint16_t flags,
                    Deadline deadline) {
    const Opened opened = open(credentials, session, flags, 0, deadline);
    if (opened.answer != Answer::ok || opened.fd >= 0) return opened.fd;
    return fetch_file(opened.text, deadline);
}

}  // namespace

int open_slice_file(const Credentials& credentials, const SessionId& session, Deadline deadline) {
    return open_descriptor(credentials, session, hello_slice_file, deadline);
}

int open_passage(const Credentials& credentials, const SessionId& session, Deadline deadline) {
    return open_descriptor(credentials, session, hello_passage, deadline);
}

}  // namespace wire
