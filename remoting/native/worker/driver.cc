#include "driver.h"

#include <dlfcn.h>

namespace worker {

bool Driver::open(const char* path, std::string& error) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        error = dlerror();
        return false;
    }
#define DRIVER_FUNCTION(symbol) symbol = reinterpret_cast<decltype(symbol)>(dlsym(library, #symbol));
#include "driver_functions.inc"
#undef DRIVER_FUNCTION
    if (cuInit && cuDeviceGetCount && cuDevicePrimaryCtxRetain && cuCtxSetCurrent) return true;
    error = std::string(path) + " is not a CUDA driver";
    return false;
}

}  // namespace worker
