// Under a lease: its agent tells the slices, and the files that its processes have open tell who uses them.
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "attach_point.h"
#include "hello.h"
#include "log.h"
#include "presence.h"
#include "source.h"

namespace nvml {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 2000ms;
constexpr size_t kMostProcesses = 1024;

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

std::string lease_name() {
    wire::Credentials credentials;
    std::string error;
    const bool any = current_credentials(credentials, error);
    explicit_bzero(credentials.secret.data(), credentials.secret.size());
    return any ? credentials.lease : std::string();
}

struct CloseFolder {
    void operator()(DIR* folder) const { closedir(folder); }
};

template <typename Visit>
void for_each_entry(const std::string& path, Visit visit) {
    const std::unique_ptr<DIR, CloseFolder> folder(opendir(path.c_str()));
    if (!folder) return;
    while (const dirent* entry = readdir(folder.get())) {
        if (!visit(entry->d_name)) return;
    }
}

// The path of the file that `process` shows, or nothing. Other users' processes cannot be looked into, and so
// are none of this lease.
std::string shown_by(const std::string& process, const std::string& link) {
    std::string found;
    const std::string files = process + "/fd/";
    for_each_entry(files, [&](const char* name) {
        char target[256];
        const ssize_t length = readlink((files + name).c_str(), target, sizeof target);
        if (length > 0 && std::string_view(target, static_cast<size_t>(length)) == link) found = files + name;
        return found.empty();
    });
    return found;
}

// What a process of this user says of itself. By now the number may be another file's: it is not waited for.
uint64_t told_by(const std::string& presence, unsigned index) {
    const int fd = open(presence.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return kNotKnown;
    uint64_t bytes = 0;
    const ssize_t length = pread(fd, &bytes, sizeof bytes, static_cast<off_t>(index * sizeof bytes));
    close(fd);
    return length == sizeof bytes ? bytes : kNotKnown;
}

}  // namespace

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
    if (!parse_slices(opened.text, slices)) {
        client::log_line("NVML: the agent's answer cannot be read");
        return kUnknown;
    }
    return kSuccess;
}

std::vector<User> users_of(unsigned index) {
    const std::string lease = lease_name(), link = client::presence_link(lease);
    std::vector<User> found;
    if (lease.empty()) return found;
    for_each_entry("/proc", [&](const char* name) {
        char* end = nullptr;
        const unsigned long pid = strtoul(name, &end, 10);
        if (pid == 0 || *end != 0) return true;
        const std::string presence = shown_by(std::string("/proc/") + name, link);
        if (!presence.empty()) found.push_back({static_cast<uint32_t>(pid), told_by(presence, index)});
        return found.size() < kMostProcesses;
    });
    std::sort(found.begin(), found.end(), [](const User& a, const User& b) { return a.pid < b.pid; });
    return found;
}

}  // namespace nvml
