// What front/kernel.h wants of this driver.
#include "front/kernel.h"

#include "driver.h"
#include "front/platform.h"
#include "module.h"

namespace front::platform {
namespace {

using namespace softgpu;
using driver::as_handle;
using driver::Driver;
using driver::KernelSettings;

std::shared_ptr<driver::Kernel> known(CUkernel handle) {
    return Driver::live()->handles.get<driver::Kernel>(handle);
}

std::shared_ptr<driver::Function> known(CUfunction handle) {
    require_working_context();
    return driver::find_function(*Driver::live()->current(), handle);
}

KernelSettings& settings_in(const std::shared_ptr<void>& object) {
    return *static_cast<KernelSettings*>(object.get());
}

}  // namespace

Kernel::Kernel(CUkernel handle) {
    const auto kernel = known(handle);
    object_ = kernel->library->settings(kernel->index);
}

Kernel::Kernel(CUfunction handle) : object_(known(handle)->settings) {}

const char* Kernel::name() const {
    return settings_in(object_).info.name.c_str();
}

std::optional<Kernel::Parameter> Kernel::parameter(size_t index) const {
    const auto& parameters = settings_in(object_).info.params;
    if (index >= parameters.size()) return std::nullopt;
    return Parameter{parameters[index].offset, parameters[index].bytes};
}

std::optional<int> Kernel::attribute(CUfunction_attribute attribute) const {
    const KernelSettings& settings = settings_in(object_);
    const KernelInfo& info = settings.info;
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            return static_cast<int>(info.max_threads);
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
            return static_cast<int>(info.static_shared_bytes);
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
            return static_cast<int>(info.constant_bytes);
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
            return static_cast<int>(info.local_bytes);
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
            return static_cast<int>(info.registers);
        case CU_FUNC_ATTRIBUTE_PTX_VERSION:
            return static_cast<int>(info.target);  // CUDA means the architecture here: 75 for compute_75
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
            return 75;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            return static_cast<int>(settings.max_dynamic_shared.load());
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            return settings.shared_carveout.load();
        case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            return 0;
        default:
            return std::nullopt;
    }
}

// There are no clusters here, so these two are all that can be set.
void Kernel::set(CUfunction_attribute attribute, int value, CUdevice) const {
    KernelSettings& settings = settings_in(object_);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        settings.max_dynamic_shared = static_cast<uint32_t>(value);
    } else {
        settings.shared_carveout = value;
    }
}

CUlibrary library_of(CUkernel kernel) {
    return as_handle<CUlibrary>(known(kernel)->library->handle);
}

CUmodule module_of(CUfunction function) {
    return as_handle<CUmodule>(known(function)->module->handle);
}

CUfunction function_of(CUkernel kernel) {
    require_working_context();
    const auto found = known(kernel);
    const auto module = found->library->module(*Driver::live()->current());
    return as_handle<CUfunction>(module->function(found->index)->handle);
}

}  // namespace front::platform
