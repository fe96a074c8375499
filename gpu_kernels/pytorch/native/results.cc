#include "results.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

namespace gk {
namespace {

thread_local const SliceMemory* in_slice = nullptr;
at::Allocator* processors = nullptr;
at::DeleterFnPtr device_deleter = nullptr;

// cuPointerGetAttribute: of memory that is no device's it returns an error, or another type.
using PointerAttribute = int (*)(void* value, int attribute, unsigned long long address);
PointerAttribute pointer_attribute = nullptr;
constexpr int kMemoryType = 2, kDeviceMemory = 2;
// Where a mapped slice lies, and nothing that a processor's allocator gives out
// (docs/design/shared-memory.md).
constexpr unsigned long long kLowest = 0x1000'0000'0000, kEnd = 0x3000'0000'0000;

// The driver does not know memory of a life that has ended, nor any in the child of a fork; its addresses
// stay those of a slice.
bool is_devices(void* address) {
    const auto number = reinterpret_cast<unsigned long long>(address);
    unsigned type = 0;
    return (number >= kLowest && number < kEnd) ||
           (pointer_attribute(&type, kMemoryType, number) == 0 && type == kDeviceMemory);
}

// oneDNN keeps bare addresses of what it took, and gives them back whenever it likes.
void free_either(void* address) {
    (is_devices(address) ? device_deleter : processors->raw_deleter())(address);
}

class Allocator final : public at::Allocator {
  public:
    explicit Allocator(at::Allocator& device) : device_(device) {}

    at::DataPtr allocate(size_t bytes) override {
        if (!in_slice || bytes == 0) return processors->allocate(bytes);
        at::DataPtr data = device_.allocate(bytes);
        if (!in_slice->reaches(data.get(), bytes)) return processors->allocate(bytes);
        void* const address = data.get();
        const at::DeleterFnPtr deleter = data.get_deleter();
        return {address, data.release_context(), deleter, c10::Device(c10::kCPU)};
    }
    at::DeleterFnPtr raw_deleter() const override { return free_either; }
    void copy_data(void* to, const void* from, size_t bytes) const override {
        processors->copy_data(to, from, bytes);
    }

  private:
    at::Allocator& device_;
};

}  // namespace

ResultsInSlice::ResultsInSlice(const SliceMemory& memory) : before_(in_slice) {
    in_slice = memory.in_place() ? &memory : nullptr;
}
ResultsInSlice::~ResultsInSlice() {
    in_slice = before_;
}

void stand_before_the_processors_allocator() {
    at::Allocator* const device = c10::GetAllocator(c10::kCUDA);
    device_deleter = device->allocate(1).get_deleter();
    TORCH_CHECK(device_deleter, "gpu-kernels: PyTorch's allocator for the device has no deleter");
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    pointer_attribute =
        driver ? reinterpret_cast<PointerAttribute>(dlsym(driver, "cuPointerGetAttribute")) : nullptr;
    TORCH_CHECK(pointer_attribute, "gpu-kernels: the CUDA driver is not loaded");
    processors = c10::GetAllocator(c10::kCPU);
    static Allocator allocator(*device);
    constexpr uint8_t kBeforeAll = 255;
    c10::SetAllocator(c10::kCPU, &allocator, kBeforeAll);
}

bool lies_in_slice(const at::DataPtr& data) {
    return data.get() && data.get_deleter() == device_deleter;
}

at::DataPtr on_device(at::DataPtr data, c10::Device device) {
    void* const address = data.get();
    const at::DeleterFnPtr deleter = data.get_deleter();
    return {address, data.release_context(), deleter, device};
}

}  // namespace gk
