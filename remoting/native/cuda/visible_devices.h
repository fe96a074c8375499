// CUDA_VISIBLE_DEVICES: which of the devices a process sees, and in what order. Read in one way by the client
// (over the devices of the lease) and by the software GPU.
//
// As the programming guide has it, and where that is silent, as PyTorch reads it, which must agree with the
// driver: a list of numbers or one of UUIDs, whichever comes first; what is not in order ends the list; a
// device named twice leaves none at all.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cuda {

inline constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";

using DeviceUuid = std::array<uint8_t, 16>;

inline std::string uuid_text(const DeviceUuid& uuid) {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string text = "GPU-";
    for (size_t i = 0; i < uuid.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += kDigits[uuid[i] >> 4];
        text += kDigits[uuid[i] & 15];
    }
    return text;
}

// The one device whose UUID begins so. A few digits are enough.
inline std::optional<size_t> device_with_uuid(std::string_view start, std::span<const DeviceUuid> devices) {
    std::optional<size_t> found;
    for (size_t i = 0; i < devices.size(); ++i) {
        if (!uuid_text(devices[i]).starts_with(start)) continue;
        if (found) return std::nullopt;
        found = i;
    }
    return found;
}

// Leading digits count, as strtoul has it: "1gpu" is device 1.
inline std::optional<size_t> device_with_number(const std::string& text, size_t devices) {
    char* end = nullptr;
    const long long number = std::strtoll(text.c_str(), &end, 10);
    if (end == text.c_str() || number < 0 || static_cast<unsigned long long>(number) >= devices)
        return std::nullopt;
    return static_cast<size_t>(number);
}

// The devices that `list` lets a process see, in its order; all without a list.
inline std::vector<size_t> visible_devices(const char* list, std::span<const DeviceUuid> devices) {
    std::vector<size_t> seen;
    if (!list) {
        for (size_t i = 0; i < devices.size(); ++i) seen.push_back(i);
        return seen;
    }
    constexpr std::string_view kPrefix = "GPU-";
    std::string_view rest = list;
    const bool by_uuid = rest.starts_with(kPrefix);
    for (bool more = true; more;) {
        const size_t comma = rest.find(',');
        const std::string_view entry = rest.substr(0, comma);
        more = comma != std::string_view::npos;
        if (more) rest.remove_prefix(comma + 1);
        std::optional<size_t> device;
        if (!by_uuid) device = device_with_number(std::string(entry), devices.size());
        if (by_uuid && entry.starts_with(kPrefix)) device = device_with_uuid(entry, devices);
        if (!device) break;
        if (std::find(seen.begin(), seen.end(), *device) != seen.end()) return {};
        seen.push_back(*device);
    }
    return seen;
}

// Whether a program asks for a device by `list`, and not for none, as CUDA_VISIBLE_DEVICES=-1 does.
inline bool wants_devices(const char* list) {
    return list && *list && *list != '-';
}

// Whether it sees none for certain, whatever there is.
inline bool hides_all_devices(const char* list) {
    return list && (!*list || std::strtoll(list, nullptr, 10) < 0);
}

// For the person whose list names nothing that is there.
inline std::string no_visible_device(const std::string& list, size_t devices) {
    const std::string there = devices == 1 ? "is one GPU, number 0"
                                           : "are " + std::to_string(devices) + " GPUs, numbers 0 to " +
                                                 std::to_string(devices - 1);
    return std::string(kVisibleDevices) + "=" + list.substr(0, 64) + " leaves this program no GPU: there " +
           there + ", and each may be named once. Take the variable away, or name one of them.";
}

}  // namespace cuda
