// What the environment says about the software GPU, read once at cuInit.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace softgpu::driver {

struct DeviceConfig {
    uint64_t memory_bytes = 0;
    std::array<char, 16> uuid{};
    unsigned number = 0;  // among all devices, those included that CUDA_VISIBLE_DEVICES hides
};

struct Config {
    static constexpr size_t kMaxDevices = 16;

    std::string name;  // always says "software GPU"
    unsigned
        threads;  // GPU_KERNELS_SOFTGPU_THREADS, or the cores this process may use; all devices share them
    // One for each entry of GPU_KERNELS_SOFTGPU_MEMORY_MIB, which has one for each device; without it one
    // device with half of the host's memory. GPU_KERNELS_SOFTGPU_UUID names them in the same order; a device
    // that it does not name has a UUID that stays the same on this host.
    // CUDA_VISIBLE_DEVICES chooses among them; it may leave none.
    std::vector<DeviceConfig> devices;

    static Config from_environment();
    // The same with those that CUDA_VISIBLE_DEVICES hides.
    static Config of_all_devices();
};

// What GPU_KERNELS_SOFTGPU_CHECK asks for, GkCheck; what it says that is no check is told on the log.
uint32_t checks_from_environment();

// The name with "(software GPU)" added unless it says so already, in whatever case.
std::string honest_name(const std::string& configured);

// Reads "GPU-8-4-4-4-12" hexadecimal digits, with or without the prefix; false when it is not that.
bool parse_uuid(const std::string& text, std::array<char, 16>& uuid);

}  // namespace softgpu::driver
