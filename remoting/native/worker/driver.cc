#include "driver.h"

#include <dlfcn.h>

namespace worker {
namespace {

std::string as_text(int version) {
    return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

bool Driver::open(const char* path, std::string& error) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        error = dlerror();
        return false;
    }
#define DRIVER_FUNCTION(symbol) symbol = reinterpret_cast<decltype(symbol)>(dlsym(library, #symbol));
#include "driver_functions.inc"
#undef DRIVER_FUNCTION
    const auto extension = reinterpret_cast<GkSoftgpuExtensionOf>(dlsym(library, kGkSoftgpuExtension));
    if (extension) software = extension(kGkSoftgpuExtensionVersion);
    library_call = reinterpret_cast<GkLibraryCallFunction>(dlsym(library, kGkLibraryCall));
    // Forms of the same ABI that an older driver has under its older name.
    if (!cuEventElapsedTime_v2) cuEventElapsedTime_v2 = cuEventElapsedTime;
    int version = 0;
    if (!cuInit || !cuDeviceGetCount || !cuDevicePrimaryCtxRetain || !cuCtxSetCurrent ||
        invoke(cuDriverGetVersion, &version) != CUDA_SUCCESS) {
        error = std::string(path) + " is not a CUDA driver";
        return false;
    }
    if (version >= kOldestDriver) return true;
    error = "the NVIDIA driver of this server is for " + as_text(version) + "; install one for " +
            as_text(kOldestDriver) + " or newer (550.54 is the first)";
    return false;
}

}  // namespace worker
