// The calls that nvidia-ml-py's users make of a device: which it is, and how much of it is in use. A slice is
// the whole device here, so nothing of other people's use can be seen.
#include <cuda.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "abi.h"
#include "slices.h"

namespace {

using namespace nvml;

constexpr uint64_t kMiB = 1024 * 1024;
constexpr const char* kNvmlVersion = "13.615";      // of the interface that this implements a part of
constexpr const char* kNoBus = "00000000:00:00.0";  // of a software GPU; the form that programs parse

Return put_text(std::string_view text, char* to, unsigned length) {
    if (!to) return kInvalidArgument;
    if (text.size() >= length) return kInsufficientSize;
    memcpy(to, text.data(), text.size());
    to[text.size()] = '\0';
    return kSuccess;
}

template <typename Use>
Return with_slice(Device device, Use use) {
    Slice slice;
    const Return result = slice_of(device, slice);
    return result == kSuccess ? use(slice) : result;
}

template <typename Matches>
Return find(Matches matches, Device* device) {
    if (!device) return kInvalidArgument;
    std::vector<Slice> slices;
    const Return result = all(slices);
    if (result != kSuccess) return result;
    for (unsigned i = 0; i < slices.size(); ++i) {
        if (!matches(slices[i])) continue;
        *device = handle_of(i);
        return kSuccess;
    }
    return kNotFound;
}

struct Bus {
    uint32_t domain = 0, bus = 0, device = 0;

    bool operator==(const Bus&) const = default;
};

bool parse_bus(std::string_view text, Bus& bus) {
    const std::string copy(text);
    unsigned function = 0;
    return sscanf(copy.c_str(), "%8x:%2x:%2x.%1x", &bus.domain, &bus.bus, &bus.device, &function) == 4;
}

// The longer structure holds the shorter one's fields at the same places.
void put_bus(const Slice& slice, PciInfo& info) {
    const std::string& id = slice.pci_bus_id.empty() ? kNoBus : slice.pci_bus_id;
    Bus bus;
    if (!parse_bus(id, bus)) bus = Bus{};
    info.domain = bus.domain;
    info.bus = bus.bus;
    info.device = bus.device;
    snprintf(info.bus_id, sizeof info.bus_id, "%08X:%02X:%02X.0", bus.domain, bus.bus & 0xff,
             bus.device & 0xff);
    snprintf(info.bus_id_legacy, sizeof info.bus_id_legacy, "%04X:%02X:%02X.0", bus.domain & 0xffff,
             bus.bus & 0xff, bus.device & 0xff);
}

Return short_pci_info(Device device, PciInfoV2* info) {
    if (!info) return kInvalidArgument;
    return with_slice(device, [&](const Slice& slice) {
        PciInfo whole{};
        put_bus(slice, whole);
        *info = {};
        memcpy(info, &whole, offsetof(PciInfo, bus_id));
        return kSuccess;
    });
}

Return cuda_version(int* version) {
    if (!version) return kInvalidArgument;
    std::vector<Slice> slices;
    const Return result = all(slices);
    if (result != kSuccess) return result;
    const bool known = !slices.empty() && slices.front().cuda_version != 0;
    *version = known ? static_cast<int>(slices.front().cuda_version) : CUDA_VERSION;
    return kSuccess;
}

Return device_count(unsigned* count) {
    if (!count) return kInvalidArgument;
    std::vector<Slice> slices;
    const Return result = all(slices);
    if (result == kSuccess) *count = static_cast<unsigned>(slices.size());
    return result;
}

Return handle_by_index(unsigned index, Device* device) {
    unsigned count = 0;
    if (!device) return kInvalidArgument;
    const Return result = device_count(&count);
    if (result != kSuccess) return result;
    if (index >= count) return kInvalidArgument;
    *device = handle_of(index);
    return kSuccess;
}

Return handle_by_bus(const char* id, Device* device) {
    Bus wanted;
    if (!id || !parse_bus(id, wanted)) return kInvalidArgument;
    return find(
        [&](const Slice& slice) {
            Bus bus;
            return parse_bus(slice.pci_bus_id.empty() ? kNoBus : slice.pci_bus_id, bus) && bus == wanted;
        },
        device);
}

Return handle_by_uuid(std::string_view uuid, Device* device) {
    return find(
        [&](const Slice& slice) {
            return slice.uuid.size() == uuid.size() &&
                   strncasecmp(slice.uuid.data(), uuid.data(), uuid.size()) == 0;
        },
        device);
}

}  // namespace

NVML_EXPORT Return nvmlInit() {
    return start();
}

NVML_EXPORT Return nvmlInit_v2() {
    return start();
}

NVML_EXPORT Return nvmlInitWithFlags(unsigned flags) {
    return start();
}

NVML_EXPORT Return nvmlShutdown() {
    return stop();
}

NVML_EXPORT const char* nvmlErrorString(int result) {
    switch (result) {
        case kSuccess:
            return "The operation was successful";
        case kUninitialized:
            return "NVML was not initialized with nvmlInit()";
        case kInvalidArgument:
            return "An argument is invalid";
        case kNotSupported:
            return "The slice of a remote GPU does not tell this";
        case kNotFound:
            return "No such device in this lease";
        case kInsufficientSize:
            return "The buffer is too small";
        case kDriverNotLoaded:
            return "This process has no GPU: choose a GPU kernel, or start it with 'jupyter gpu run'";
        case kTimeout:
            return "The GPU server does not answer";
        case kGpuIsLost:
            return "The lease of the GPU has ended: restart the kernel to get a new one";
        case kVersionMismatch:
            return "The structure's version is not supported";
        default:
            return "Unknown error";
    }
}

NVML_EXPORT Return nvmlSystemGetDriverVersion(char* version, unsigned length) {
    std::vector<Slice> slices;
    const Return result = all(slices);
    if (result != kSuccess) return result;
    return slices.empty() ? kNotFound : put_text(slices.front().driver_version, version, length);
}

NVML_EXPORT Return nvmlSystemGetNVMLVersion(char* version, unsigned length) {
    return put_text(kNvmlVersion, version, length);
}

NVML_EXPORT Return nvmlSystemGetCudaDriverVersion(int* version) {
    return cuda_version(version);
}

NVML_EXPORT Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
    return cuda_version(version);
}

NVML_EXPORT Return nvmlDeviceGetCount(unsigned* count) {
    return device_count(count);
}

NVML_EXPORT Return nvmlDeviceGetCount_v2(unsigned* count) {
    return device_count(count);
}

NVML_EXPORT Return nvmlDeviceGetHandleByIndex(unsigned index, Device* device) {
    return handle_by_index(index, device);
}

NVML_EXPORT Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
    return handle_by_index(index, device);
}

NVML_EXPORT Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
    return uuid ? handle_by_uuid(uuid, device) : kInvalidArgument;
}

NVML_EXPORT Return nvmlDeviceGetHandleByUUIDV(const Uuid* uuid, Device* device) {
    if (!uuid) return kInvalidArgument;
    if (uuid->version != kUuidV1) return kVersionMismatch;
    if (uuid->type != kUuidText) return kNotSupported;
    return handle_by_uuid({uuid->value.text, strnlen(uuid->value.text, sizeof uuid->value.text)}, device);
}

NVML_EXPORT Return nvmlDeviceGetHandleByPciBusId(const char* id, Device* device) {
    return handle_by_bus(id, device);
}

NVML_EXPORT Return nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) {
    return handle_by_bus(id, device);
}

NVML_EXPORT Return nvmlDeviceGetName(Device device, char* name, unsigned length) {
    return with_slice(device, [&](const Slice& slice) { return put_text(slice.name, name, length); });
}

NVML_EXPORT Return nvmlDeviceGetUUID(Device device, char* uuid, unsigned length) {
    return with_slice(device, [&](const Slice& slice) { return put_text(slice.uuid, uuid, length); });
}

NVML_EXPORT Return nvmlDeviceGetIndex(Device device, unsigned* index) {
    if (!index) return kInvalidArgument;
    return with_slice(device,
                      [&](const Slice&) { return index_of(device, *index) ? kSuccess : kInvalidArgument; });
}

NVML_EXPORT Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
    if (!memory) return kInvalidArgument;
    return with_slice(device, [&](const Slice& slice) {
        const uint64_t used = std::min(slice.used_mib, slice.total_mib);
        *memory = {slice.total_mib * kMiB, (slice.total_mib - used) * kMiB, used * kMiB};
        return kSuccess;
    });
}

NVML_EXPORT Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
    if (!memory) return kInvalidArgument;
    if (memory->version != kMemoryV2) return kVersionMismatch;
    Memory plain{};
    const Return result = nvmlDeviceGetMemoryInfo(device, &plain);
    if (result == kSuccess) *memory = {kMemoryV2, plain.total, 0, plain.free, plain.used};
    return result;
}

NVML_EXPORT Return nvmlDeviceGetUtilizationRates(Device device, Utilization* rates) {
    if (!rates) return kInvalidArgument;
    // NVML's second figure is of the memory's bandwidth, which nobody measures for a slice.
    return with_slice(device, [&](const Slice& slice) {
        *rates = {slice.utilisation, 0};
        return kSuccess;
    });
}

NVML_EXPORT Return nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
    if (!major || !minor) return kInvalidArgument;
    return with_slice(device, [&](const Slice& slice) {
        return sscanf(slice.compute_capability.c_str(), "%3d.%3d", major, minor) == 2 ? kSuccess
                                                                                      : kNotSupported;
    });
}

NVML_EXPORT Return nvmlDeviceGetPciInfo(Device device, PciInfoV2* info) {
    return short_pci_info(device, info);
}

NVML_EXPORT Return nvmlDeviceGetPciInfo_v2(Device device, PciInfoV2* info) {
    return short_pci_info(device, info);
}

NVML_EXPORT Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
    if (!info) return kInvalidArgument;
    return with_slice(device, [&](const Slice& slice) {
        *info = {};
        put_bus(slice, *info);
        return kSuccess;
    });
}
