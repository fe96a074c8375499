#include "slice_memory.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdlib>

namespace gk {
namespace {

// By names that both releases of the runtime have alike.
template <typename Function>
Function runtime_function(const char* name) {
    auto* const function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    TORCH_CHECK(function, "gpu-kernels: the CUDA runtime is not loaded");
    return function;
}
using Copy = int (*)(void* to, const void* from, size_t bytes, int kind, void* stream);
using CopyRows = int (*)(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t bytes,
                         size_t rows, int kind, void* stream);
enum Kind { kHostToHost = 0, kToDevice = 1, kToHost = 2 };

void require_success(int error, const char* what) {
    if (error == 0) return;
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, error,
                                c10::str("gpu-kernels: ", what, " (cudaError ", error, ")"));
}

// The stream as the runtime calls it, while the stream's device is the current one: the default streams of
// all devices have one handle.
class Native {
  public:
    explicit Native(const c10::Stream& stream)
        : on_device_(stream.device()),
          handle_(c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamNativeHandle(stream)) {}
    void* handle() const { return handle_; }

  private:
    const c10::DeviceGuard on_device_;
    void* const handle_;
};

class OwnMemory final : public SliceMemory {
  public:
    bool in_place() const override { return true; }
    at::DataPtr open(const c10::Storage& device) const override {
        return {device.mutable_data(), c10::Device(c10::kCPU)};
    }
    // A copy of a byte is an operation of the stream, so it comes after what its operations come after: the
    // default stream's after those of all blocking streams, and theirs after the default stream's. From host
    // to host the call returns when it is done.
    void wait(const c10::Stream& stream) const override {
        char to = 0;
        const char from = 0;
        const Native native(stream);
        require_success(copy_(&to, &from, 1, kHostToHost, native.handle()),
                        "the stream's earlier work could not be waited for");
    }
    void fetch(void*, const c10::Storage&, Extent, const c10::Stream&) const override {}
    void put(const void*, const c10::Storage&, Block, const c10::Stream&) const override {}

  private:
    const Copy copy_ = runtime_function<Copy>("cudaMemcpyAsync");
};

class CopiedMemory final : public SliceMemory {
  public:
    bool in_place() const override { return false; }
    // The whole storage's addresses, so that offsets stay; pages that are not fetched cost nothing.
    at::DataPtr open(const c10::Storage& device) const override {
        if (device.nbytes() == 0) return {nullptr, c10::Device(c10::kCPU)};
        void* host = nullptr;
        TORCH_CHECK_WITH(OutOfMemoryError, posix_memalign(&host, 64, device.nbytes()) == 0,
                         "gpu-kernels: this machine has no ", device.nbytes(), " bytes for an operand");
        return {host, host, std::free, c10::Device(c10::kCPU)};
    }
    void wait(const c10::Stream&) const override {}
    // Pageable memory: the call returns when the bytes are here.
    void fetch(void* host, const c10::Storage& device, Extent extent,
               const c10::Stream& stream) const override {
        if (extent.bytes == 0) return;
        const Native native(stream);
        require_success(copy_(static_cast<std::byte*>(host) + extent.first,
                              static_cast<const std::byte*>(device.data()) + extent.first, extent.bytes,
                              kToHost, native.handle()),
                        "a tensor could not be read from the slice");
    }
    void put(const void* host, const c10::Storage& device, Block block,
             const c10::Stream& stream) const override {
        if (block.bytes == 0) return;
        void* const to = static_cast<std::byte*>(device.mutable_data()) + block.first;
        const void* const from = static_cast<const std::byte*>(host) + block.first;
        const Native native(stream);
        const int error = block.rows == 1 ? copy_(to, from, block.bytes, kToDevice, native.handle())
                                          : copy_rows_(to, block.pitch, from, block.pitch, block.bytes,
                                                       block.rows, kToDevice, native.handle());
        require_success(error, "a tensor could not be written to the slice");
    }

  private:
    const Copy copy_ = runtime_function<Copy>("cudaMemcpyAsync");
    const CopyRows copy_rows_ = runtime_function<CopyRows>("cudaMemcpy2DAsync");
};

}  // namespace

const SliceMemory& own_memory() {
    static const OwnMemory memory;
    return memory;
}

const SliceMemory& copied_memory() {
    static const CopiedMemory memory;
    return memory;
}

}  // namespace gk
