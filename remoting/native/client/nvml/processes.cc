// The processes on the device: of a slice, its user sees those that have a session of his lease, and nobody
// else's.
#include <stdio.h>
#include <string.h>

#include <string>
#include <vector>

#include "abi.h"
#include "slices.h"
#include "source.h"

namespace {

using namespace nvml;

constexpr uint32_t kNoInstance = 0xffffffff;
constexpr uint64_t kNotKnown = ~uint64_t{0};  // NVML's value for memory that nobody can tell

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
    const std::vector<uint32_t> found = slice.used_mib > 0 ? processes_using() : std::vector<uint32_t>();
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
