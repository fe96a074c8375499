// What the environment says about the software GPU, read once at cuInit.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace softgpu::driver {

struct Config {
    std::string name;           // always says "software GPU"
    uint64_t memory_bytes;      // GPU_KERNELS_SOFTGPU_MEMORY_MIB, or half of the host's memory
    unsigned threads;           // GPU_KERNELS_SOFTGPU_THREADS, or the cores this process may use
    std::array<char, 16> uuid;  // GPU_KERNELS_SOFTGPU_UUID, or one that stays the same on this host

    static Config from_environment();
};

// The name with "(software GPU)" added unless it says so already, in whatever case.
std::string honest_name(const std::string& configured);

// Reads "GPU-8-4-4-4-12" hexadecimal digits, with or without the prefix; false when it is not that.
bool parse_uuid(const std::string& text, std::array<char, 16>& uuid);

}  // namespace softgpu::driver
