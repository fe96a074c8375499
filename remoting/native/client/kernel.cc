// What front/kernel.h wants of the client: kernels and functions are the same thing here, and all that is
// asked of them came with the reply to the load.
#include "front/kernel.h"

#include "call.h"
#include "front/platform.h"
#include "library.h"

namespace front::platform {
namespace {

// A CUfunction, or a CUkernel, which is of a library and so of no context.
template <class Handle>
client::Kernel& known(Handle handle) {
    client::Kernel* kernel = client::kernel_of(handle);
    const bool is_one = kernel && (std::is_same_v<Handle, CUfunction> || !kernel->context);
    require(is_one, CUDA_ERROR_INVALID_HANDLE);
    return *kernel;
}

// Slots of the table stay where they are (handles.h).
std::shared_ptr<void> slot(client::Kernel& kernel) {
    return {std::shared_ptr<void>(), &kernel};
}

client::Kernel& kernel_in(const std::shared_ptr<void>& slot) {
    return *static_cast<client::Kernel*>(slot.get());
}

}  // namespace

Kernel::Kernel(CUkernel handle) : object_(slot(known(handle))) {}

Kernel::Kernel(CUfunction handle) {
    require_working_context();
    object_ = slot(known(handle));
}

const char* Kernel::name() const {
    return kernel_in(object_).name->c_str();
}

std::optional<Kernel::Parameter> Kernel::parameter(size_t index) const {
    const auto& rows = kernel_in(object_).params;
    if (index >= rows.size()) return std::nullopt;
    return Parameter{rows[index].offset, rows[index].bytes};
}

std::optional<int> Kernel::attribute(CUfunction_attribute attribute) const {
    const auto index = static_cast<uint32_t>(attribute);
    if (index >= wire::kFunctionAttributes) return std::nullopt;
    const int32_t value = kernel_in(object_).attributes[index];
    return value == INT32_MIN ? std::nullopt : std::optional(value);
}

void Kernel::set(CUfunction_attribute attribute, int value, CUdevice device) const {
    client::Call call;
    check(call.begin_on(static_cast<uint8_t>(device)));
    const auto index = static_cast<uint32_t>(attribute);
    client::Kernel& kernel = kernel_in(object_);
    kernel.attributes[index] = value;
    const wire::FunctionAttribute message{kernel.library, kernel.index, index, value, 0};
    check(call.post(wire::kOpSetAttribute, 0, &message, sizeof message));
}

CUlibrary library_of(CUkernel kernel) {
    return reinterpret_cast<CUlibrary>(known(kernel).library);
}

CUmodule module_of(CUfunction function) {
    require_working_context();
    return reinterpret_cast<CUmodule>(known(function).library);
}

CUfunction function_of(CUkernel kernel) {
    require_working_context();
    known(kernel);
    return reinterpret_cast<CUfunction>(kernel);
}

}  // namespace front::platform
