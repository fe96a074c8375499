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

bool is_sticky(CUresult status) {
    switch (status) {
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
            return true;
        default:
            return false;
    }
}

}  // namespace worker
