#include "slices.h"

#include <pthread.h>
#include <string.h>

#include <chrono>
#include <mutex>

#include "attach_point.h"
#include "hello.h"
#include "log.h"

namespace nvml {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kFresh = 200ms;
constexpr auto kPatience = 2000ms;
constexpr unsigned kMostDevices = 64;

struct State {
    std::mutex mutex;
    unsigned started = 0;
    bool asked = false;
    Return result = kUninitialized;
    Clock::time_point asked_at;
    std::vector<Slice> slices;
};

// Never destroyed: programs ask NVML while they exit. A fork waits for a query that runs, so that the child
// finds no lock held by a thread that it does not have.
State& state() {
    static State* only = [] {
        pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                       [] { state().mutex.unlock(); });
        return new State;
    }();
    return *only;
}

Return meaning(wire::Answer answer) {
    switch (answer) {
        case wire::Answer::ok:
            return kSuccess;
        case wire::Answer::no_agent:
        case wire::Answer::too_many:
            return kTimeout;
        default:
            return kGpuIsLost;
    }
}

// What the kernel has now where there is an attach point, which NVML does not wait at; else the
// environment's.
bool current_credentials(wire::Credentials& credentials, std::string& error) {
    const wire::AttachAnswer answer =
        wire::ask_attach_point("status", [](const wire::Waits*) { return false; });
    switch (answer.attached) {
        case wire::Attached::yes:
            credentials = answer.credentials;
            return true;
        case wire::Attached::nobody:
            return wire::credentials_from_environment(credentials, error);
        default:
            error = answer.text.empty() ? "the kernel waits for its slice" : answer.text;
            return false;
    }
}

Return ask(std::vector<Slice>& slices) {
    wire::Credentials credentials;
    std::string error;
    if (!current_credentials(credentials, error)) {
        client::log_line("NVML: " + error);
        return kDriverNotLoaded;
    }
    const auto opened = wire::query_status(credentials, wire::random_session(), wire::deadline_in(kPatience));
    explicit_bzero(credentials.secret.data(), credentials.secret.size());
    if (opened.answer != wire::Answer::ok) {
        client::log_line("NVML: " + opened.text);
        return meaning(opened.answer);
    }
    if (!parse_slices(opened.text, slices) || slices.size() > kMostDevices) {
        client::log_line("NVML: the agent's answer cannot be read");
        return kUnknown;
    }
    return kSuccess;
}

// With the lock held: the newest answer, asked for if the last is too old. Failures too are remembered, or a
// monitor that polls would wait each time.
Return refresh(State& now) {
    if (now.asked && Clock::now() - now.asked_at < kFresh) return now.result;
    std::vector<Slice> slices;
    now.result = ask(slices);
    if (now.result == kSuccess) now.slices = std::move(slices);
    now.asked = true;
    now.asked_at = Clock::now();
    return now.result;
}

const char* places() {
    static const char table[kMostDevices] = {};
    return table;
}

}  // namespace

Return start() {
    State& now = state();
    const std::lock_guard lock(now.mutex);
    const Return result = refresh(now);
    if (result == kSuccess) ++now.started;
    return result;
}

Return stop() {
    State& now = state();
    const std::lock_guard lock(now.mutex);
    if (now.started == 0) return kUninitialized;
    --now.started;
    return kSuccess;
}

bool is_started() {
    State& now = state();
    const std::lock_guard lock(now.mutex);
    return now.started > 0;
}

std::string lease_name() {
    wire::Credentials credentials;
    std::string error;
    const bool any = current_credentials(credentials, error);
    explicit_bzero(credentials.secret.data(), credentials.secret.size());
    return any ? credentials.lease : std::string();
}

Return all(std::vector<Slice>& slices) {
    State& now = state();
    const std::lock_guard lock(now.mutex);
    if (now.started == 0) return kUninitialized;
    const Return result = refresh(now);
    if (result == kSuccess) slices = now.slices;
    return result;
}

Return slice_of(Device device, Slice& slice) {
    std::vector<Slice> slices;
    const Return result = all(slices);
    if (result != kSuccess) return result;
    unsigned index = 0;
    if (!index_of(device, index) || index >= slices.size()) return kInvalidArgument;
    slice = std::move(slices[index]);
    return kSuccess;
}

Device handle_of(unsigned index) {
    return index < kMostDevices ? places() + index : nullptr;
}

bool index_of(Device device, unsigned& index) {
    const auto at = reinterpret_cast<uintptr_t>(device), begin = reinterpret_cast<uintptr_t>(places());
    if (at < begin || at >= begin + kMostDevices) return false;
    index = static_cast<unsigned>(at - begin);
    return true;
}

}  // namespace nvml
