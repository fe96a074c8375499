#include "driver.h"

#include <dlfcn.h>

namespace libraries {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

}  // namespace

const Driver* driver() {
    static const Driver* opened = []() -> const Driver* {
        void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library) return nullptr;
        auto* made = new Driver{};
        find(library, kGkLibraryCall, made->library_call);
        find(library, "gkLife", made->life);
        return find(library, "cuMemAlloc_v2", made->allocate) && find(library, "cuMemFree_v2", made->free) &&
                       find(library, "cuMemGetAddressRange_v2", made->range) &&
                       find(library, "cuMemcpyHtoDAsync_v2", made->copy_in) &&
                       find(library, "cuMemcpyDtoHAsync_v2", made->copy_out) &&
                       find(library, "cuMemcpy2DAsync_v2", made->copy_rows) &&
                       find(library, "cuStreamSynchronize", made->synchronize)
                   ? made
                   : nullptr;
    }();
    return opened;
}

Scratch::~Scratch() {
    if (memory_ && life_ == driver()->present_life()) driver()->free(memory_);
}

bool Scratch::is_there() const {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    return memory_ && life_ == driver()->present_life() &&
           driver()->range(&base, &bytes, memory_) == CUDA_SUCCESS && base == memory_ && bytes == kBytes;
}

CUresult Scratch::address(CUdeviceptr& address) {
    if (!is_there()) {
        life_ = driver()->present_life();
        const CUresult result = driver()->allocate(&memory_, kBytes);
        if (result != CUDA_SUCCESS) return memory_ = 0, result;
    }
    address = memory_;
    return CUDA_SUCCESS;
}

}  // namespace libraries
