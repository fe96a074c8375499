#include "slice_memory.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdlib>

namespace gk {
namespace {

class OwnMemory final : public SliceMemory {
  public:
    bool in_place() const override { return true; }
    at::DataPtr open(const c10::Storage& device) const override {
        return {device.mutable_data(), c10::Device(c10::kCPU)};
    }
    void fetch(void*, const c10::Storage&, Extent, const c10::Stream&) const override {}
    void put(const void*, const c10::Storage&, Extent, const c10::Stream&) const override {}
};

class CopiedMemory final : public SliceMemory {
    // cudaMemcpyAsync, which both releases of the runtime have alike.
    using Copy = int (*)(void* to, const void* from, size_t bytes, int kind, void* stream);
    enum Kind { kToDevice = 1, kToHost = 2 };

  public:
    CopiedMemory() : copy_(reinterpret_cast<Copy>(dlsym(RTLD_DEFAULT, "cudaMemcpyAsync"))) {
        TORCH_CHECK(copy_, "gpu-kernels: the CUDA runtime is not loaded");
    }
    bool in_place() const override { return false; }
    // The whole storage's addresses, so that offsets stay; pages that are not fetched cost nothing.
    at::DataPtr open(const c10::Storage& device) const override {
        if (device.nbytes() == 0) return {nullptr, c10::Device(c10::kCPU)};
        void* host = nullptr;
        TORCH_CHECK_WITH(OutOfMemoryError, posix_memalign(&host, 64, device.nbytes()) == 0,
                         "gpu-kernels: this machine has no ", device.nbytes(), " bytes for an operand");
        return {host, host, std::free, c10::Device(c10::kCPU)};
    }
    // Pageable memory: the call returns when the bytes are here.
    void fetch(void* host, const c10::Storage& device, Extent extent,
               const c10::Stream& stream) const override {
        copy(static_cast<std::byte*>(host) + extent.first,
             static_cast<const std::byte*>(device.data()) + extent.first, extent, kToHost, stream);
    }
    void put(const void* host, const c10::Storage& device, Extent extent,
             const c10::Stream& stream) const override {
        copy(static_cast<std::byte*>(device.mutable_data()) + extent.first,
             static_cast<const std::byte*>(host) + extent.first, extent, kToDevice, stream);
    }

  private:
    void copy(void* to, const void* from, Extent extent, Kind kind, const c10::Stream& stream) const {
        if (extent.bytes == 0) return;
        const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
        const int error = copy_(to, from, extent.bytes, kind, guard.getStreamNativeHandle(stream));
        if (error != 0) {
            throw c10::AcceleratorError(
                {__func__, __FILE__, __LINE__}, error,
                c10::str("gpu-kernels: a tensor could not be ", kind == kToHost ? "read from" : "written to",
                         " the slice (cudaError ", error, ")"));
        }
    }
    const Copy copy_;
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
