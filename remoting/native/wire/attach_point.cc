#include "attach_point.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "json/document.h"

namespace wire {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t kLongestLine = 64 * 1024;
constexpr int kTickMs = 250;

// One line of an answer, as far as it is read.
struct Line {
    std::string state;
    Waits waits;
    std::string agent, lease, epoch, secret;
};

bool parse_line(std::string_view text, Line& line) {
    const json::Document document(text);
    yyjson_val* said = document.root();
    line.state = json::text(said, "state");
    line.waits.text = json::text(said, "text");
    line.waits.size = json::text(said, "size");
    line.waits.starts_in = json::number(said, "starts_in", line.waits.starts_in);
    line.waits.since = json::number(said, "since", line.waits.since);
    const double position = json::number(said, "position", line.waits.position);
    line.waits.position = static_cast<int>(std::clamp(position, 0.0, 1e9));
    yyjson_val* environment = yyjson_obj_get(said, "environment");
    line.agent = json::text(environment, "GPU_KERNELS_AGENT");
    line.lease = json::text(environment, "GPU_KERNELS_LEASE");
    line.epoch = json::text(environment, "GPU_KERNELS_EPOCH");
    line.secret = json::text(environment, "GPU_KERNELS_SECRET");
    return !line.state.empty();
}

class Conversation {
  public:
    explicit Conversation(int fd) : fd_(fd) {}
    ~Conversation() { close(fd_); }
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    // A request is shorter than any socket's buffer.
    bool say(std::string_view request) {
        return send(fd_, request.data(), request.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(request.size());
    }

    enum class Heard { line, nothing, end };

    // The next line, or nothing within a tick or until a signal.
    Heard listen(std::string& line) {
        if (take(line)) return Heard::line;
        pollfd entry{fd_, POLLIN, 0};
        const int ready = poll(&entry, 1, kTickMs);
        if (ready == 0 || (ready < 0 && errno == EINTR)) return Heard::nothing;
        char bytes[4096];
        const ssize_t got = ready < 0 ? -1 : recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Heard::nothing;
        if (got <= 0 || buffer_.size() > kLongestLine) return Heard::end;
        buffer_.append(bytes, static_cast<size_t>(got));
        explicit_bzero(bytes, sizeof bytes);
        return take(line) ? Heard::line : Heard::nothing;
    }

  private:
    bool take(std::string& line) {
        const size_t end = buffer_.find('\n');
        if (end == std::string::npos) return false;
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return true;
    }

    int fd_;
    std::string buffer_;
};

AttachAnswer nobody(std::string_view why) {
    return AttachAnswer{Attached::nobody, {}, {}, std::string(why)};
}

AttachAnswer settled(Line& line) {
    AttachAnswer answer{Attached::no, {}, line.waits.size, line.waits.text};
    if (line.state == "attached") {
        const bool good = make_credentials(line.agent, line.lease, line.epoch, line.secret,
                                           answer.credentials, answer.text);
        answer.attached = good ? Attached::yes : Attached::no;
    }
    explicit_bzero(line.secret.data(), line.secret.size());
    return answer;
}

}  // namespace

bool has_attach_point() {
    const char* address = getenv("GPU_KERNELS_ATTACH");
    return address && *address;
}

AttachAnswer ask_attach_point(std::string_view what, const std::function<bool(const Waits*)>& goes_on) {
    if (!has_attach_point()) return nobody("GPU_KERNELS_ATTACH is not set");
    Address address;
    std::string error, text;
    if (!parse_address(getenv("GPU_KERNELS_ATTACH"), address, error)) return nobody(error);
    const int fd = connect_to(address, deadline_in(5s), error);
    if (fd < 0) return nobody(error);
    Conversation conversation(fd);
    if (!conversation.say("{\"do\": \"" + std::string(what) + "\"}\n"))
        return nobody("the attach point hung up");
    for (auto heard_at = Clock::now();;) {
        const auto heard = conversation.listen(text);
        if (heard == Conversation::Heard::end)
            return nobody("the Jupyter server that asks for the GPU has gone");
        if (heard == Conversation::Heard::nothing) {
            if (Clock::now() - heard_at > kSilence) return nobody("the Jupyter server says nothing");
            if (!goes_on(nullptr)) return AttachAnswer{Attached::interrupted, {}, {}, {}};
            continue;
        }
        heard_at = Clock::now();
        Line line;
        const bool good = parse_line(text, line);
        explicit_bzero(text.data(), text.size());
        if (!good) return nobody("the attach point's answer cannot be read");
        if (line.state != "waiting") return settled(line);
        if (!goes_on(&line.waits)) return AttachAnswer{Attached::interrupted, {}, {}, {}};
    }
}

}  // namespace wire
