#include "driver.h"

#include <dlfcn.h>

#include <cstring>
#include <mutex>

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

namespace {

CUresult ask(GkLibrary library, uint8_t major, GkEnd& end) {
    if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!driver()->library_call) return CUDA_ERROR_NOT_SUPPORTED;
    GkLook look{.head = {}, .end = &end};
    look.head.library = library;
    look.head.function = kGkLook;
    look.head.major = major;
    return static_cast<CUresult>(driver()->library_call(nullptr, &look, sizeof look));
}

struct Known {
    bool is = false;
    unsigned long long life = 0;
    GkEnd end{};
};
std::mutex mutex;
Known all[kGkLibraries];

}  // namespace

CUresult look(GkLibrary library, uint8_t major) {
    GkEnd end{};
    const CUresult result = ask(library, major, end);
    if (result != CUDA_SUCCESS) return result;
    const std::lock_guard lock(mutex);
    all[library] = {true, driver()->present_life(), end};
    return result;
}

GkEnd end_of(GkLibrary library, uint8_t major) {
    {
        const std::lock_guard lock(mutex);
        const Known& known = all[library];
        if (known.is && known.life == (driver() ? driver()->present_life() : 0)) return known.end;
    }
    if (look(library, major) != CUDA_SUCCESS) return {};
    const std::lock_guard lock(mutex);
    return all[library].end;
}

CUresult post(CUstream stream, const Callee& callee, const void* arguments, size_t bytes) {
    if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!driver()->library_call) return CUDA_ERROR_NOT_SUPPORTED;
    alignas(8) std::byte call[kGkMostCallBytes];
    GkLibraryCall head{};
    head.library = callee.library;
    head.function = callee.function;
    head.major = callee.major;
    head.wide = callee.wide;
    head.scalars_on_device = callee.scalars_on_device;
    std::memcpy(call, &head, sizeof head);
    std::memcpy(call + sizeof head, arguments, bytes);
    return static_cast<CUresult>(driver()->library_call(stream, call, sizeof head + bytes));
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
