#include "driver.h"

#include <dlfcn.h>

#include <mutex>

namespace libraries {
namespace {

struct Driver {
    decltype(&::cuLibraryLoadData) load;
    decltype(&::cuLibraryGetKernel) kernel;
    decltype(&::cuLaunchKernel) launch;
};

const Driver* driver() {
    static const Driver* opened = []() -> const Driver* {
        void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library) return nullptr;
        auto* made = new Driver;
        made->load = reinterpret_cast<decltype(made->load)>(dlsym(library, "cuLibraryLoadData"));
        made->kernel = reinterpret_cast<decltype(made->kernel)>(dlsym(library, "cuLibraryGetKernel"));
        made->launch = reinterpret_cast<decltype(made->launch)>(dlsym(library, "cuLaunchKernel"));
        return made->load && made->kernel && made->launch ? made : nullptr;
    }();
    return opened;
}

// What belonged to a slice that was given back is good no more.
bool is_gone(CUresult result) {
    return result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace

CUresult Kernels::kernel(const char* name, CUfunction* found, bool anew) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    if (anew) library_ = nullptr;
    if (!library_) {
        const CUresult result = driver()->load(&library_, ptx_, nullptr, nullptr, 0, nullptr, nullptr, 0);
        if (result != CUDA_SUCCESS) return library_ = nullptr, result;
    }
    return driver()->kernel(reinterpret_cast<CUkernel*>(found), library_, name);
}

CUresult Kernels::launch(const char* name, CUstream stream, unsigned blocks, unsigned layers,
                         unsigned threads, void** arguments) {
    if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = CUDA_SUCCESS;
    for (const bool anew : {false, true}) {
        CUfunction function = nullptr;
        result = kernel(name, &function, anew);
        if (result == CUDA_SUCCESS) {
            result =
                driver()->launch(function, blocks, layers, 1, threads, 1, 1, 0, stream, arguments, nullptr);
        }
        if (!is_gone(result)) break;
    }
    return result;
}

}  // namespace libraries
