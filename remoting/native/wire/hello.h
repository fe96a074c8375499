// Opening a connection of the data plane: addresses, the 128 bytes of the Hello, the agent's bounded answer.
//
// Shared by libcuda.so.1 (a lane), libnvidia-ml.so.1 (a status query) and the worker (which gets the same
// 128 bytes from its agent, with the secret zeroed). Nothing here throws but for want of memory, nothing
// keeps state, and every wait has a deadline. Errors come back as text that a student can read; no text holds
// a secret.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace wire {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline deadline_in(std::chrono::milliseconds time) {
    return std::chrono::steady_clock::now() + time;
}

// Where an agent listens: tcp://HOST:PORT, tcp://[V6]:PORT or unix:///PATH.
struct Address {
    bool is_unix = false;
    std::string host;  // of TCP; without the brackets of an IPv6 address
    std::string port;  // of TCP; decimal, 1 to 65535
    std::string path;  // of unix; absolute, at most 107 bytes

    std::string text() const;
};

// False, with what was read and what is allowed in `error`, for everything else.
bool parse_address(std::string_view text, Address& address, std::string& error);

inline constexpr size_t hello_bytes = 128;
inline constexpr size_t lease_bytes = 40;
inline constexpr size_t session_bytes = 16;
inline constexpr size_t secret_bytes = 32;
inline constexpr uint32_t answer_text_limit = 4096;
inline constexpr uint16_t hello_version = 1;
// Bits of the flags: instead of a lane, the agent's status query, the slice file, or a passage.
inline constexpr uint16_t hello_status_query = 1, hello_slice_file = 2, hello_passage = 4;

using HelloBytes = std::array<uint8_t, hello_bytes>;
using SessionId = std::array<uint8_t, session_bytes>;
using Secret = std::array<uint8_t, secret_bytes>;

struct Hello {
    uint16_t flags = 0;
    uint32_t lane = 0;
    SessionId session{};
    uint64_t epoch = 0;
    std::string lease;  // 1 to 40 printable ASCII bytes
    Secret secret{};
};

// The byte layout of docs/design.md, "Data plane". `hello.lease` must fit; credentials_from_environment and
// decode_hello see to that.
HelloBytes encode_hello(const Hello& hello);

// False where the magic, the version, the padding or the lease id are not what an encoder makes.
bool decode_hello(std::span<const uint8_t, hello_bytes> bytes, Hello& hello);

// What a process under the runtime got in its environment (GPU_KERNELS_AGENT, _LEASE, _EPOCH, _SECRET).
struct Credentials {
    Address address;
    std::string lease;
    uint64_t epoch = 0;
    Secret secret{};
};

bool credentials_from_environment(Credentials& credentials, std::string& error);

// The same of the variables' values.
bool make_credentials(std::string_view agent, std::string_view lease, std::string_view epoch,
                      std::string_view secret, Credentials& credentials, std::string& error);

// The agent's word on a Hello; `no_agent` is ours: it could not be reached, or what came back was no answer.
enum class Answer : uint32_t {
    ok = 0,
    malformed = 1,
    wrong_version = 2,
    unknown_lease = 3,
    wrong_secret = 4,
    old_epoch = 5,
    lease_ended = 6,
    no_worker = 7,
    too_many = 8,
    no_agent = 0xffffffff,
};

struct Opened {
    Answer answer = Answer::no_agent;
    // Of an accepted lane, blocking; of a slice file that came along. Close-on-exec, the caller's to close;
    // -1 otherwise.
    int fd = -1;
    std::string text;  // the refusal, for the user; for a status query the agent's JSON
};

// Fills 16 bytes from the kernel's random source.
SessionId random_session();

// Opens one lane. After Answer::ok the next byte on `fd` is the worker's.
Opened open_lane(const Credentials& credentials, const SessionId& session, uint32_t lane, Deadline deadline);

// Asks the agent how the lease's slices stand. Opens and closes a connection of its own.
Opened query_status(const Credentials& credentials, const SessionId& session, Deadline deadline);

// The file in which mappable memory of the lease lies, close-on-exec, the caller's to close; -1 where there
// is none, or the agent is on another host: only a unix socket carries it. Nobody has looked at it yet.
int open_slice_file(const Credentials& credentials, const SessionId& session, Deadline deadline);

// A unix socket whose other end the session's worker has, for descriptors that it is to have; else as above.
int open_passage(const Credentials& credentials, const SessionId& session, Deadline deadline);

// A connected, blocking, close-on-exec stream socket (without Nagle's delay on TCP), or -1 with `error` set.
// A host name, unlike a numeric address, is resolved by the C library in its own time.
int connect_to(const Address& address, Deadline deadline, std::string& error);

}  // namespace wire
