#include "config.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "checks.h"
#include "log.h"
#include "visible_devices.h"

namespace softgpu::driver {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kMaxMemoryMiB = 1ull << 24;  // 16 TiB, what the engine can address

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

std::vector<std::string> entries(const std::string& text) {
    std::vector<std::string> parts;
    for (size_t start = 0; start <= text.size() && !text.empty();) {
        const size_t comma = std::min(text.find(',', start), text.size());
        parts.push_back(text.substr(start, comma - start));
        start = comma + 1;
    }
    return parts;
}

// A number in [1, max]; nothing, and a line on the log, for anything else: a typing error in an
// administrator's file must not make notebooks fail in strange ways.
std::optional<uint64_t> number(const char* name, const std::string& text, uint64_t max) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= max) return value;
    log_line(std::string(name) + "=" + text + " is ignored: a whole number from 1 to " + std::to_string(max) +
             " is wanted");
    return std::nullopt;
}

uint64_t half_of_host_memory() {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t host = pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * page : 2048 * kMiB;
    return std::max(host / 2 / kMiB, uint64_t{64}) * kMiB;
}

unsigned usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return std::max(1, CPU_COUNT(&set));
}

// 64-bit FNV-1a.
uint64_t hash(const std::string& text, uint64_t value) {
    for (unsigned char c : text) value = (value ^ c) * 0x100000001b3ull;
    return value;
}

std::array<char, 16> uuid_of_host(size_t device) {
    std::string host;
    std::getline(std::ifstream("/etc/machine-id") >> std::ws, host);
    if (host.empty()) {
        char name[256] = "";
        gethostname(name, sizeof name - 1);
        host = name;
    }
    std::array<char, 16> uuid{};
    if (device > 0) host.append("#").append(std::to_string(device));
    const uint64_t high = hash("software GPU of " + host, 0xcbf29ce484222325ull), low = hash(host, high);
    for (int i = 0; i < 8; ++i) {
        uuid[i] = static_cast<char>(high >> (8 * i));
        uuid[8 + i] = static_cast<char>(low >> (8 * i));
    }
    uuid[6] = static_cast<char>((uuid[6] & 0x0f) | 0x80);  // version 8: made up by an application
    uuid[8] = static_cast<char>((uuid[8] & 0x3f) | 0x80);
    return uuid;
}

}  // namespace

std::string honest_name(const std::string& configured) {
    std::string lower = configured;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (lower.find("software gpu") != std::string::npos) return configured;
    return configured.empty() ? "Software GPU" : configured + " (software GPU)";
}

uint32_t checks_from_environment() {
    const std::string text = variable(kGkCheckVariable);
    uint32_t checks = 0;
    if (!parse_checks(text, checks))
        log_line(std::string(kGkCheckVariable) + "=" + text + ": " + kGkCheckNames);
    return checks;
}

bool parse_uuid(const std::string& text, std::array<char, 16>& uuid) {
    std::string digits;
    for (char c : text.rfind("GPU-", 0) == 0 ? text.substr(4) : text) {
        if (std::isxdigit(static_cast<unsigned char>(c))) {
            digits += c;
        } else if (c != '-') {
            return false;
        }
    }
    if (digits.size() != 32) return false;
    for (int i = 0; i < 16; ++i) {
        uuid[i] = static_cast<char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
    }
    return true;
}

namespace {

std::vector<DeviceConfig> devices_from_environment() {
    constexpr const char *kMemory = "GPU_KERNELS_SOFTGPU_MEMORY_MIB", *kUuid = "GPU_KERNELS_SOFTGPU_UUID";
    std::vector<DeviceConfig> devices;
    for (const std::string& entry : entries(variable(kMemory))) {
        const auto mib = number(kMemory, entry, kMaxMemoryMiB);
        if (devices.size() < Config::kMaxDevices) devices.push_back({mib.value_or(0) * kMiB});
    }
    if (devices.empty()) devices.emplace_back();
    const auto uuids = entries(variable(kUuid));
    for (size_t i = 0; i < devices.size(); ++i) {
        if (devices[i].memory_bytes == 0) devices[i].memory_bytes = half_of_host_memory();
        devices[i].number = static_cast<unsigned>(i);
        devices[i].uuid = uuid_of_host(i);
        if (i < uuids.size() && !parse_uuid(uuids[i], devices[i].uuid)) {
            log_line(std::string(kUuid) + "=" + uuids[i] +
                     " is ignored: GPU- and 32 hexadecimal digits are wanted");
        }
    }
    return devices;
}

std::vector<DeviceConfig> visible(const std::vector<DeviceConfig>& all) {
    std::vector<cuda::DeviceUuid> uuids(all.size());
    for (size_t i = 0; i < all.size(); ++i) std::ranges::copy(all[i].uuid, uuids[i].begin());
    const char* list = std::getenv(cuda::kVisibleDevices);
    std::vector<DeviceConfig> seen;
    for (const size_t number : cuda::visible_devices(list, uuids)) seen.push_back(all[number]);
    if (seen.empty() && cuda::wants_devices(list)) log_line(cuda::no_visible_device(list, all.size()));
    return seen;
}

}  // namespace

Config Config::from_environment() {
    Config config = of_all_devices();
    config.devices = visible(config.devices);
    return config;
}

Config Config::of_all_devices() {
    constexpr const char* kThreads = "GPU_KERNELS_SOFTGPU_THREADS";
    Config config;
    config.name = honest_name(variable("GPU_KERNELS_SOFTGPU_NAME"));
    const std::string threads = variable(kThreads);
    config.threads = usable_cores();
    if (!threads.empty()) {
        config.threads = static_cast<unsigned>(number(kThreads, threads, 1024).value_or(config.threads));
    }
    config.devices = devices_from_environment();
    return config;
}

}  // namespace softgpu::driver
