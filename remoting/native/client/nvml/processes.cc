// The processes on the device: of a slice, its user sees those that have a session of his lease, and nobody
// else's.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "abi.h"
#include "presence.h"
#include "slices.h"

namespace {

using namespace nvml;

constexpr uint32_t kNoInstance = 0xffffffff;
constexpr uint64_t kNotKnown = ~uint64_t{0};  // NVML's value for memory that nobody can tell
constexpr size_t kMostProcesses = 1024;

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

// Other users' processes cannot be looked into, and so are none of this lease.
bool shows(const std::string& process, const std::string& link) {
    bool found = false;
    const std::string files = process + "/fd/";
    for_each_entry(files, [&](const char* name) {
        char target[256];
        const ssize_t length = readlink((files + name).c_str(), target, sizeof target);
        found = length > 0 && std::string_view(target, static_cast<size_t>(length)) == link;
        return !found;
    });
    return found;
}

std::vector<uint32_t> processes_of_lease() {
    const std::string lease = lease_name(), link = client::presence_link(lease);
    std::vector<uint32_t> found;
    if (lease.empty()) return found;
    for_each_entry("/proc", [&](const char* name) {
        char* end = nullptr;
        const unsigned long pid = strtoul(name, &end, 10);
        if (pid != 0 && *end == 0 && shows(std::string("/proc/") + name, link)) {
            found.push_back(static_cast<uint32_t>(pid));
        }
        return found.size() < kMostProcesses;
    });
    std::sort(found.begin(), found.end());
    return found;
}

void put(uint32_t pid, uint64_t bytes, ProcessV1& process) {
    process = {pid, bytes};
}

void put(uint32_t pid, uint64_t bytes, ProcessV2& process) {
    process = {pid, bytes, kNoInstance, kNoInstance};
}

// `count` is the room in, the number out. What is in use is one process's, or several's together: how much
// each has, the agent does not tell.
template <typename Process>
Return compute_processes(Device device, unsigned* count, Process* processes) {
    if (!count) return kInvalidArgument;
    Slice slice;
    const Return result = slice_of(device, slice);
    if (result != kSuccess) return result;
    const std::vector<uint32_t> found = slice.used_mib > 0 ? processes_of_lease() : std::vector<uint32_t>();
    const unsigned room = *count;
    *count = static_cast<unsigned>(found.size());
    if (*count > room) return kInsufficientSize;
    if (*count == 0) return kSuccess;
    if (!processes) return kInvalidArgument;
    const uint64_t bytes = found.size() == 1 ? slice.used_mib << 20 : kNotKnown;
    for (size_t i = 0; i < found.size(); ++i) put(found[i], bytes, processes[i]);
    return kSuccess;
}

// A slice draws nothing, and shares nothing through MPS.
Return no_processes(Device device, unsigned* count) {
    if (!count) return kInvalidArgument;
    Slice slice;
    const Return result = slice_of(device, slice);
    if (result == kSuccess) *count = 0;
    return result;
}

}  // namespace

NVML_EXPORT Return nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count,
                                                        ProcessV1* processes) {
    return compute_processes(device, count, processes);
}

NVML_EXPORT Return nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count,
                                                           ProcessV2* processes) {
    return compute_processes(device, count, processes);
}

NVML_EXPORT Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count,
                                                           ProcessV2* processes) {
    return compute_processes(device, count, processes);
}

NVML_EXPORT Return nvmlDeviceGetGraphicsRunningProcesses(Device device, unsigned* count, ProcessV1*) {
    return no_processes(device, count);
}

NVML_EXPORT Return nvmlDeviceGetGraphicsRunningProcesses_v2(Device device, unsigned* count, ProcessV2*) {
    return no_processes(device, count);
}

NVML_EXPORT Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count, ProcessV2*) {
    return no_processes(device, count);
}

NVML_EXPORT Return nvmlDeviceGetMPSComputeRunningProcesses(Device device, unsigned* count, ProcessV1*) {
    return no_processes(device, count);
}

NVML_EXPORT Return nvmlDeviceGetMPSComputeRunningProcesses_v2(Device device, unsigned* count, ProcessV2*) {
    return no_processes(device, count);
}

NVML_EXPORT Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned* count, ProcessV2*) {
    return no_processes(device, count);
}

NVML_EXPORT Return nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
    if (!is_started()) return kUninitialized;
    if (!name || length == 0) return kInvalidArgument;
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE* file = fopen(path, "re");
    if (!file) return kNotFound;
    const bool read = fgets(name, static_cast<int>(length), file) != nullptr;
    fclose(file);
    if (!read) return kNotFound;
    name[strcspn(name, "\n")] = '\0';
    return kSuccess;
}
