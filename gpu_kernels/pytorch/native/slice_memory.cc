#include "slice_memory.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

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

std::atomic<uint64_t> copied_so_far = 0;

constexpr char kNotWaited[] = "the stream's earlier work could not be waited for";

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

// Where the processor reaches both: what is not the same memory is copied by it.
void move(const void* host, const c10::Storage& device, Block block) {
    const auto* from = static_cast<const std::byte*>(host) + block.first;
    auto* to = static_cast<std::byte*>(device.mutable_data()) + block.first;
    if (from == to) return;
    copied_so_far += block.rows * block.bytes;
    for (size_t row = 0; row < block.rows; ++row)
        std::memcpy(to + row * block.pitch, from + row * block.pitch, block.bytes);
}

class OwnMemory final : public SliceMemory {
  public:
    bool in_place() const override { return true; }
    bool reaches(const void*, size_t) const override { return true; }
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
        require_success(copy_(&to, &from, 1, kHostToHost, native.handle()), kNotWaited);
        const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
        if (!guard.queryStream(stream)) guard.synchronizeStream(stream);
    }
    void fetch(void*, const c10::Storage&, Extent, const c10::Stream&) const override {}
    void put(const void* host, const c10::Storage& device, Block block, const c10::Stream&) const override {
        move(host, device, block);
    }

  private:
    const Copy copy_ = runtime_function<Copy>("cudaMemcpyAsync");
};

class CopiedMemory final : public SliceMemory {
  public:
    bool in_place() const override { return false; }
    bool reaches(const void*, size_t) const override { return false; }
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
        copied_so_far += extent.bytes;
        const Native native(stream);
        require_success(copy_(static_cast<std::byte*>(host) + extent.first,
                              static_cast<const std::byte*>(device.data()) + extent.first, extent.bytes,
                              kToHost, native.handle()),
                        "a tensor could not be read from the slice");
    }
    void put(const void* host, const c10::Storage& device, Block block,
             const c10::Stream& stream) const override {
        if (block.bytes == 0) return;
        copied_so_far += block.rows * block.bytes;
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

// What our client's libcuda.so.1 has beyond CUDA (client/here.h).
template <typename Function>
Function client_function(const char* name) {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver ? reinterpret_cast<Function>(dlsym(driver, name)) : nullptr;
}

class MappedMemory final : public SliceMemory {
  public:
    bool in_place() const override { return true; }
    bool reaches(const void* device, size_t bytes) const override {
        return is_mapped_(reinterpret_cast<unsigned long long>(device), bytes) == 1;
    }
    at::DataPtr open(const c10::Storage& device) const override {
        if (!reaches(device)) return copied_.open(device);
        return {device.mutable_data(), c10::Device(c10::kCPU)};
    }
    void wait(const c10::Stream& stream) const override {
        const Native native(stream);
        require_success(wait_in_stream_(native.handle()), kNotWaited);
    }
    void fetch(void* host, const c10::Storage& device, Extent extent,
               const c10::Stream& stream) const override {
        if (host != device.data()) copied_.fetch(host, device, extent, stream);
    }
    void put(const void* host, const c10::Storage& device, Block block,
             const c10::Stream& stream) const override {
        if (host == device.data()) return;
        reaches(device) ? move(host, device, block) : copied_.put(host, device, block, stream);
    }

    bool is_there() const {
        using Allocate = int (*)(void** address, size_t bytes);
        using Free = int (*)(void* address);
        constexpr size_t kBytes = 64 << 10;
        const auto map = client_function<void (*)()>("gkMapMemory");
        if (!map || !is_mapped_ || !wait_in_stream_) return false;
        map();
        void* tried = nullptr;
        if (runtime_function<Allocate>("cudaMalloc")(&tried, kBytes) != 0) return false;
        const bool mapped = reaches(tried, kBytes);
        runtime_function<Free>("cudaFree")(tried);
        return mapped;
    }

  private:
    bool reaches(const c10::Storage& device) const { return reaches(device.data(), device.nbytes()); }

    const CopiedMemory copied_;
    int (*const is_mapped_)(unsigned long long,
                            size_t) = client_function<int (*)(unsigned long long, size_t)>("gkIsMapped");
    int (*const wait_in_stream_)(void*) = client_function<int (*)(void*)>("gkWaitInStream");
};

}  // namespace

uint64_t copied_bytes() {
    return copied_so_far;
}

const SliceMemory& memory_of(Way way) {
    if (way == Way::kOwn) {
        static const OwnMemory own;
        return own;
    }
    if (way == Way::kMapped) {
        static const MappedMemory mapped;
        if (mapped.is_there()) return mapped;
    }
    static const CopiedMemory copied;
    return copied;
}

}  // namespace gk
