// Straight: the software GPUs that this process's environment describes, as this process uses them. Others
// have software GPUs of their own.
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "driver/config.h"
#include "source.h"

namespace nvml {
namespace {

constexpr uint64_t kMiB = 1024 * 1024;

std::string uuid_text(const std::array<char, 16>& uuid) {
    std::string text = "GPU-";
    for (size_t i = 0; i < uuid.size(); ++i) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid[i]));
        text += digits;
        if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
    }
    return text;
}

// The driver, where the program has opened it already. It is never opened or started here: programs ask NVML
// before they fork, because that leaves CUDA to the children.
template <typename Function>
Function* of_open_driver(const char* name) {
    static void* library = nullptr;
    if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

#define OF_OPEN_DRIVER(name) of_open_driver<decltype(name)>(#name)

uint64_t used_bytes(CUdevice device) {
    const auto state = OF_OPEN_DRIVER(cuDevicePrimaryCtxGetState);
    unsigned flags = 0;
    int active = 0;
    if (!state || state(device, &flags, &active) != CUDA_SUCCESS || !active) return 0;
    const auto retain = OF_OPEN_DRIVER(cuDevicePrimaryCtxRetain);
    const auto release = of_open_driver<CUresult(CUdevice)>("cuDevicePrimaryCtxRelease_v2");
    const auto push = of_open_driver<CUresult(CUcontext)>("cuCtxPushCurrent_v2");
    const auto pop = of_open_driver<CUresult(CUcontext*)>("cuCtxPopCurrent_v2");
    const auto info = of_open_driver<CUresult(size_t*, size_t*)>("cuMemGetInfo_v2");
    CUcontext context = nullptr;
    if (!retain || !release || !push || !pop || !info || retain(&context, device) != CUDA_SUCCESS) return 0;
    size_t free = 0, total = 0;
    if (push(context) == CUDA_SUCCESS) {
        info(&free, &total);
        pop(&context);
    }
    release(device);
    return total - free;
}

// CUDA numbers the devices that the program chose, and NVML all.
uint64_t used_bytes_of(const std::array<char, 16>& uuid) {
    const auto count_devices = OF_OPEN_DRIVER(cuDeviceGetCount);
    const auto uuid_of = of_open_driver<CUresult(CUuuid*, CUdevice)>("cuDeviceGetUuid_v2");
    int count = 0;
    if (!count_devices || !uuid_of || count_devices(&count) != CUDA_SUCCESS) return 0;
    for (CUdevice device = 0; device < count; ++device) {
        CUuuid its{};
        if (uuid_of(&its, device) == CUDA_SUCCESS && std::equal(uuid.begin(), uuid.end(), its.bytes)) {
            return used_bytes(device);
        }
    }
    return 0;
}

}  // namespace

Return ask(std::vector<Slice>& slices) {
    using softgpu::driver::Config;
    const Config config = Config::of_all_devices();
    for (const auto& device : config.devices) {
        Slice slice;
        slice.name = config.name;
        slice.uuid = uuid_text(device.uuid);
        slice.device = "software";
        slice.driver_version = GPU_KERNELS_VERSION;
        slice.compute_capability = "7.5";
        slice.total_mib = device.memory_bytes / kMiB;
        slice.used_mib = (used_bytes_of(device.uuid) + kMiB - 1) / kMiB;
        slices.push_back(std::move(slice));
    }
    return kSuccess;
}

std::vector<User> users_of(unsigned) {
    return {{static_cast<uint32_t>(getpid()), kNotKnown}};  // alone it has all that is in use
}

}  // namespace nvml
