// Entry points: modules and their functions.
#include <algorithm>

#include "driver.h"
#include "image_file.h"
#include "jit_options.h"
#include "module.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

CUresult load(CUmodule* module, const std::function<std::vector<NamedText>()>& read, JitLog log) {
    return context_call([&](Context& context) {
        require(module != nullptr);
        auto texts = read_logged(read, log);
        auto program = link_logged(texts, log);
        const auto fresh = std::make_shared<Module>(context.shared_from_this(), std::move(program), nullptr);
        context.driver.handles.add(fresh);
        context.own(fresh->handle);
        *module = as_handle<CUmodule>(fresh->handle);
    });
}

template <class Body>
CUresult function_call(CUfunction handle, Body&& body) noexcept {
    return context_call([&](Context& context) { return body(*find_function(context, handle)); });
}

}  // namespace

extern "C" {

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                            CUjit_option* options, void** optionValues) {
    return load(module, [image] { return read_image(image); }, JitLog(numOptions, options, optionValues));
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
    return cuModuleLoadDataEx(module, fatCubin, 0, nullptr, nullptr);
}

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
    return load(module, [fname] { return read_image_file(fname); }, JitLog());
}

CUresult cuModuleUnload(CUmodule hmod) {
    return context_call([&](Context& context) {
        const auto module = context.driver.handles.get<Module>(hmod);
        require(!module->of_library, CUDA_ERROR_NOT_PERMITTED);
        require(context.driver.handles.remove(module->handle), CUDA_ERROR_INVALID_HANDLE);
        module->context->disown(module->handle);
        module->drop_functions();
    });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    return driver_call([&](Driver&) {
        require(mode != nullptr);
        *mode = CU_MODULE_EAGER_LOADING;
    });
}

CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
    return context_call([&](Context& context) {
        require(hfunc != nullptr);
        const auto module = context.driver.handles.get<Module>(hmod);
        *hfunc = as_handle<CUfunction>(module->function(kernel_index(*module->program, name))->handle);
    });
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
    return context_call([&](Context& context) {
        require(count != nullptr);
        *count = context.driver.handles.get<Module>(mod)->program->kernels().size();
    });
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
    return context_call([&](Context& context) {
        require(functions != nullptr || numFunctions == 0);
        const auto module = context.driver.handles.get<Module>(mod);
        const size_t count = std::min<size_t>(numFunctions, module->program->kernels().size());
        for (uint32_t i = 0; i < count; ++i)
            functions[i] = as_handle<CUfunction>(module->function(i)->handle);
    });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
    return context_call([&](Context& context) {
        const auto place = context.driver.handles.get<Module>(hmod)->global(name);
        if (dptr) *dptr = place.address;
        if (bytes) *bytes = place.bytes;
    });
}

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
    return function_call(hfunc, [&](Function& function) {
        require(pi != nullptr);
        *pi = function_attribute(function.info(), *function.settings, attrib);
        return CUDA_SUCCESS;
    });
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
    return function_call(hfunc, [&](Function& function) {
        set_function_attribute(function.info(), *function.settings, attrib, value);
        return CUDA_SUCCESS;
    });
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
    return function_call(hfunc, [&](Function&) {
        require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
        return CUDA_SUCCESS;
    });
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
    return function_call(hfunc, [&](Function&) { return cuCtxSetSharedMemConfig(config); });
}

CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
    return function_call(hfunc, [&](Function& function) {
        require(hmod != nullptr);
        *hmod = as_handle<CUmodule>(function.module->handle);
        return CUDA_SUCCESS;
    });
}

CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
    return function_call(hfunc, [&](Function& function) {
        require(name != nullptr);
        *name = function.info().name.c_str();
        return CUDA_SUCCESS;
    });
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    return function_call(func, [&](Function& function) {
        param_info(function.info(), paramIndex, paramOffset, paramSize);
        return CUDA_SUCCESS;
    });
}

CUresult cuFuncGetParamCount(CUfunction func, size_t* paramCount) {
    return function_call(func, [&](Function& function) {
        require(paramCount != nullptr);
        *paramCount = function.info().params.size();
        return CUDA_SUCCESS;
    });
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
    return function_call(function, [&](Function&) {
        require(state != nullptr);
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
        return CUDA_SUCCESS;
    });
}

CUresult cuFuncLoad(CUfunction function) {
    return function_call(function, [](Function&) { return CUDA_SUCCESS; });
}
}
