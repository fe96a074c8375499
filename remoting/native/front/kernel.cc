// Entry points: kernels, and functions, which are kernels in a context.
#include "kernel.h"

#include "platform.h"

using namespace front;
using platform::Kernel;

namespace {

template <class Handle>
CUresult get_name(const char** name, Handle handle) {
    return call([&] {
        const Kernel kernel(handle);
        require(name != nullptr);
        *name = kernel.name();
    });
}

// Programs count parameters by the first that there is not.
template <class Handle>
CUresult get_parameter(Handle handle, size_t index, size_t* offset, size_t* bytes) {
    return call([&] {
        const Kernel kernel(handle);
        const auto parameter = kernel.parameter(index);
        require(offset != nullptr && parameter.has_value());
        *offset = parameter->offset;
        if (bytes) *bytes = parameter->bytes;
    });
}

template <class Handle>
CUresult count_parameters(Handle handle, size_t* count) {
    return call([&] {
        const Kernel kernel(handle);
        require(count != nullptr);
        for (*count = 0; kernel.parameter(*count);) ++*count;
    });
}

void get_attribute(const Kernel& kernel, int* value, CUfunction_attribute attribute) {
    require(value != nullptr);
    const auto found = kernel.attribute(attribute);
    require(found.has_value());
    *value = *found;
}

bool has_clusters(CUdevice device) {
    constexpr int kFirst = 9;
    return platform::attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= kFirst;
}

bool can_be(const Kernel& kernel, CUfunction_attribute attribute, int value, CUdevice device) {
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
            const int all =
                platform::attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
            return value >= 0 &&
                   value <= all - kernel.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES).value_or(0);
        }
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            return value >= CU_SHAREDMEM_CARVEOUT_DEFAULT && value <= CU_SHAREDMEM_CARVEOUT_MAX_SHARED;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
            return value >= 0 && has_clusters(device);
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
            return (value == 0 || value == 1) && has_clusters(device);
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            return value >= CU_CLUSTER_SCHEDULING_POLICY_DEFAULT &&
                   value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING && has_clusters(device);
        default:
            return false;
    }
}

// What it cannot be is refused here: the error would come later where nobody waits for the call.
void set_attribute(const Kernel& kernel, CUfunction_attribute attribute, int value, CUdevice device) {
    require(can_be(kernel, attribute, value, device));
    kernel.set(attribute, value, device);
}

void check_cache(CUfunc_cache config) {
    require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
}

}  // namespace

extern "C" {

CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
    return get_name(name, hfunc);
}
CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
    return get_name(name, hfunc);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    return get_parameter(kernel, paramIndex, paramOffset, paramSize);
}
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    return get_parameter(func, paramIndex, paramOffset, paramSize);
}
CUresult cuKernelGetParamCount(CUkernel kernel, size_t* paramCount) {
    return count_parameters(kernel, paramCount);
}
CUresult cuFuncGetParamCount(CUfunction func, size_t* paramCount) {
    return count_parameters(func, paramCount);
}

CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
    return call([&] {
        const Kernel found(kernel);
        platform::require_device(dev);
        get_attribute(found, pi, attrib);
    });
}
CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
    return call([&] { get_attribute(Kernel(hfunc), pi, attrib); });
}
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
    return permitted_call([&] {
        const Kernel found(kernel);
        platform::require_device(dev);
        set_attribute(found, attrib, val, dev);
    });
}
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
    return call([&] { set_attribute(Kernel(hfunc), attrib, value, platform::require_context()); });
}

// Hints to a GPU's caches and banks, which nobody can ask for.
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
    return call([&] {
        const Kernel found(kernel);
        platform::require_device(dev);
        check_cache(config);
    });
}
CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
    return call([&] {
        const Kernel found(hfunc);
        check_cache(config);
    });
}
CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
    return call([&] {
        const Kernel found(hfunc);
        require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
    });
}

CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
    return call([&] {
        require(pLib != nullptr);
        *pLib = platform::library_of(kernel);
    });
}
CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
    return call([&] {
        require(hmod != nullptr);
        *hmod = platform::module_of(hfunc);
    });
}
CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
    return call([&] {
        require(pFunc != nullptr);
        *pFunc = platform::function_of(kernel);
    });
}

// What is loaded is loaded whole.
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
    return call([&] {
        const Kernel found(function);
        require(state != nullptr);
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    });
}
CUresult cuFuncLoad(CUfunction function) {
    return call([&] { Kernel{function}; });
}
}
