// The processes on the device: of a slice, its user sees those that have a session of his lease, and nobody
// else's.
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <string>
#include <vector>

#include "abi.h"
#include "slices.h"
#include "source.h"

namespace {

using namespace nvml;

constexpr uint32_t kNoInstance = 0xffffffff;

void put(uint32_t pid, uint64_t bytes, ProcessV1& process) {
    process = {pid, bytes};
}

void put(uint32_t pid, uint64_t bytes, ProcessV2& process) {
    process = {pid, bytes, kNoInstance, kNoInstance};
}

// `count` is the room in, the number out. One process has all that is in use, what the worker takes for it
// too. Of several each has what it has allocated, as it says itself, which is not believed beyond the slice's
// use.
template <typename Process>
Return compute_processes(Device device, unsigned* count, Process* processes) {
    if (!count) return kInvalidArgument;
    Slice slice;
    const Return result = slice_of(device, slice);
    if (result != kSuccess) return result;
    unsigned index = 0;
    if (!index_of(device, index)) return kInvalidArgument;
    std::vector<User> found = slice.used_mib > 0 ? users_of(index) : std::vector<User>();
    const unsigned room = *count;
    *count = static_cast<unsigned>(found.size());
    if (*count > room) return kInsufficientSize;
    if (*count == 0) return kSuccess;
    if (!processes) return kInvalidArgument;
    const uint64_t used = slice.used_mib << 20;
    if (found.size() == 1) found[0].bytes = used;
    for (size_t i = 0; i < found.size(); ++i) {
        const uint64_t bytes = found[i].bytes == kNotKnown ? kNotKnown : std::min(found[i].bytes, used);
        put(found[i].pid, bytes, processes[i]);
    }
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
