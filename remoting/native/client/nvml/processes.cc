// The processes on the device: of a slice, its user sees his own and nobody else's.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "slices.h"

namespace {

using namespace nvml;

constexpr uint32_t kNoInstance = 0xffffffff;

void put(const Slice& slice, ProcessV1& process) {
    process = {static_cast<uint32_t>(getpid()), slice.used_mib << 20};
}

void put(const Slice& slice, ProcessV2& process) {
    process = {static_cast<uint32_t>(getpid()), slice.used_mib << 20, kNoInstance, kNoInstance};
}

// This process, once something on the device is in use. `count` is the room in, the number out.
template <typename Process>
Return compute_processes(Device device, unsigned* count, Process* processes) {
    if (!count) return kInvalidArgument;
    Slice slice;
    const Return result = slice_of(device, slice);
    if (result != kSuccess) return result;
    const unsigned room = *count;
    *count = slice.used_mib > 0 ? 1 : 0;
    if (*count > room) return kInsufficientSize;
    if (*count == 0) return kSuccess;
    if (!processes) return kInvalidArgument;
    put(slice, processes[0]);
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
