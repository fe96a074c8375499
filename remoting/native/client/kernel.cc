// What is asked of kernels and functions, which are the same thing here.
#include <cstring>

#include "call.h"
#include "library.h"
#include "session.h"

namespace client {
namespace {

CUresult get_attribute(int* value, CUfunction_attribute which, const void* handle) {
    const Kernel* kernel = kernel_of(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    const auto index = static_cast<uint32_t>(which);
    if (!value || index >= wire::kFunctionAttributes || kernel->attributes[index] == INT32_MIN) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *value = kernel->attributes[index];
    return CUDA_SUCCESS;
}

CUresult set_attribute(CUfunction_attribute which, int value, const void* handle) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    Kernel* kernel = kernel_of(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    const auto index = static_cast<uint32_t>(which);
    if (index >= wire::kFunctionAttributes) return CUDA_ERROR_INVALID_VALUE;
    // The one that programs set; what the device allows is known here, so that the error comes at once.
    if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        const auto& device = Session::get().devices()[call.device()];
        const int limit = device.attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] -
                          kernel->attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
        if (value < 0 || value > limit) return CUDA_ERROR_INVALID_VALUE;
    }
    kernel->attributes[index] = value;
    const wire::FunctionAttribute message{kernel->library, kernel->index, index, value, 0};
    return call.post(wire::kOpSetAttribute, 0, &message, sizeof message);
}

CUresult param_info(const void* handle, size_t index, size_t* offset, size_t* bytes) {
    const Kernel* kernel = kernel_of(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (!offset || index >= kernel->params.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel->params[index].offset;
    if (bytes) *bytes = kernel->params[index].bytes;
    return CUDA_SUCCESS;
}

CUresult param_count(const void* handle, size_t* count) {
    const Kernel* kernel = kernel_of(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = kernel->params.size();
    return CUDA_SUCCESS;
}

// The name stays readable as long as the library is loaded.
CUresult kernel_name(const char** name, const void* handle) {
    const Kernel* kernel = kernel_of(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = kernel->name->c_str();
    return CUDA_SUCCESS;
}

}  // namespace
}  // namespace client

using namespace client;

extern "C" {

CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
    return get_attribute(pi, attrib, kernel);
}
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
    return set_attribute(attrib, val, kernel);
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    return param_info(kernel, paramIndex, paramOffset, paramSize);
}
CUresult cuKernelGetParamCount(CUkernel kernel, size_t* paramCount) {
    return param_count(kernel, paramCount);
}
CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
    return kernel_name(name, hfunc);
}
CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
    if (!pFunc) return CUDA_ERROR_INVALID_VALUE;
    if (!kernel_of(kernel)) return CUDA_ERROR_INVALID_HANDLE;
    *pFunc = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
}
CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
    const Kernel* known = kernel_of(kernel);
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    if (!pLib) return CUDA_ERROR_INVALID_VALUE;
    *pLib = reinterpret_cast<CUlibrary>(known->library);
    return CUDA_SUCCESS;
}
// A hint.
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
    return kernel_of(kernel) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
    return get_attribute(pi, attrib, hfunc);
}
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
    return set_attribute(attrib, value, hfunc);
}
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    return param_info(func, paramIndex, paramOffset, paramSize);
}
CUresult cuFuncGetParamCount(CUfunction func, size_t* paramCount) {
    return param_count(func, paramCount);
}
CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
    return kernel_name(name, hfunc);
}
CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
    return cuKernelGetLibrary(reinterpret_cast<CUlibrary*>(hmod), reinterpret_cast<CUkernel>(hfunc));
}
CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
    return kernel_of(hfunc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
    return kernel_of(hfunc) ? cuCtxSetSharedMemConfig(config) : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
    if (!kernel_of(function)) return CUDA_ERROR_INVALID_HANDLE;
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction function) {
    return kernel_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
}
