#include "attach_point.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "json_reader.h"

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

bool text_or_skip(JsonReader& reader, std::string& value) {
    return reader.peek() == '"' ? reader.text(value) : reader.skip();
}

bool number_or_skip(JsonReader& reader, double& value) {
    const char begins = reader.peek();
    return begins == '-' || (begins >= '0' && begins <= '9') ? reader.number(value) : reader.skip();
}

bool read_variable(JsonReader& reader, std::string_view name, Line& line) {
    if (name == "GPU_KERNELS_AGENT") return text_or_skip(reader, line.agent);
    if (name == "GPU_KERNELS_LEASE") return text_or_skip(reader, line.lease);
    if (name == "GPU_KERNELS_EPOCH") return text_or_skip(reader, line.epoch);
    if (name == "GPU_KERNELS_SECRET") return text_or_skip(reader, line.secret);
    return reader.skip();
}

template <typename Field>
bool read_object(JsonReader& reader, Field field) {
    std::string key;
    if (!reader.take('{')) return false;
    if (reader.take('}')) return true;
    do {
        if (!reader.text(key) || !reader.take(':') || !field(key)) return false;
    } while (reader.take(','));
    return reader.take('}');
}

bool read_field(JsonReader& reader, std::string_view key, Line& line) {
    if (key == "state") return text_or_skip(reader, line.state);
    if (key == "text") return text_or_skip(reader, line.waits.text);
    if (key == "size") return text_or_skip(reader, line.waits.size);
    if (key == "starts_in") return number_or_skip(reader, line.waits.starts_in);
    if (key == "since") return number_or_skip(reader, line.waits.since);
    if (key == "position") {
        double position = 0;
        if (!number_or_skip(reader, position)) return false;
        line.waits.position = static_cast<int>(std::clamp(position, 0.0, 1e9));
        return true;
    }
    if (key == "environment" && reader.peek() == '{')
        return read_object(reader, [&](std::string_view name) { return read_variable(reader, name, line); });
    return reader.skip();
}

bool parse_line(std::string_view text, Line& line) {
    JsonReader reader(text);
    return read_object(reader, [&](std::string_view key) { return read_field(reader, key, line); }) &&
           reader.at_end() && !line.state.empty();
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
