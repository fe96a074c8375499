#include "config.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "log.h"

namespace softgpu::driver {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kMaxMemoryMiB = 1ull << 24;  // 16 TiB, what the engine can address

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

// The variable as a number in [1, max]; absent or empty: nothing. Anything else is told on the log and
// ignored: a typing error in an administrator's file must not make notebooks fail in strange ways.
std::optional<uint64_t> number(const char* name, uint64_t max) {
    const std::string text = variable(name);
    if (text.empty()) return std::nullopt;
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

std::array<char, 16> uuid_of_host() {
    std::string host;
    std::getline(std::ifstream("/etc/machine-id") >> std::ws, host);
    if (host.empty()) {
        char name[256] = "";
        gethostname(name, sizeof name - 1);
        host = name;
    }
    std::array<char, 16> uuid{};
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

Config Config::from_environment() {
    Config config;
    config.name = honest_name(variable("GPU_KERNELS_SOFTGPU_NAME"));
    const auto mib = number("GPU_KERNELS_SOFTGPU_MEMORY_MIB", kMaxMemoryMiB);
    config.memory_bytes = mib ? *mib * kMiB : half_of_host_memory();
    config.threads =
        static_cast<unsigned>(number("GPU_KERNELS_SOFTGPU_THREADS", 1024).value_or(usable_cores()));
    config.uuid = uuid_of_host();
    const std::string uuid = variable("GPU_KERNELS_SOFTGPU_UUID");
    if (!uuid.empty() && !parse_uuid(uuid, config.uuid)) {
        log_line("GPU_KERNELS_SOFTGPU_UUID=" + uuid +
                 " is ignored: GPU- and 32 hexadecimal digits are wanted");
    }
    return config;
}

}  // namespace softgpu::driver
