// Entry points: libraries, which belong to no context, and their kernels.
#include <algorithm>

#include "driver.h"
#include "image_file.h"
#include "jit_options.h"
#include "module.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

CUresult load(CUlibrary* library, const std::function<std::vector<NamedText>()>& read, JitLog log) {
    return driver_call([&](Driver& driver) {
        require(library != nullptr);
        auto texts = read_logged(read, log);
        const auto fresh = std::make_shared<Library>(driver, link_logged(texts, log));
        driver.handles.add(fresh);
        *library = as_handle<CUlibrary>(fresh->handle);
    });
}

template <class Body>
CUresult kernel_call(CUkernel handle, Body&& body) noexcept {
    return driver_call([&](Driver& driver) { body(*driver.handles.get<Kernel>(handle)); });
}

}  // namespace

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                           void** jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption* libraryOptions, void** libraryOptionValues,
                           unsigned int numLibraryOptions) {
    return load(
        library, [code] { return read_image(code); }, JitLog(numJitOptions, jitOptions, jitOptionsValues));
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                               void** jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption* libraryOptions, void** libraryOptionValues,
                               unsigned int numLibraryOptions) {
    return load(
        library, [fileName] { return read_image_file(fileName); },
        JitLog(numJitOptions, jitOptions, jitOptionsValues));
}

CUresult cuLibraryUnload(CUlibrary library) {
    return driver_call([&](Driver& driver) {
        const auto object = driver.handles.get<Library>(library);
        require(driver.handles.remove(object->handle), CUDA_ERROR_INVALID_HANDLE);
        object->unload();
    });
}

CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
    return driver_call([&](Driver& driver) {
        require(pKernel != nullptr);
        const auto object = driver.handles.get<Library>(library);
        *pKernel = as_handle<CUkernel>(object->kernel(kernel_index(*object->program, name))->handle);
    });
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
    return driver_call([&](Driver& driver) {
        require(count != nullptr);
        *count = driver.handles.get<Library>(lib)->program->kernels().size();
    });
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
    return driver_call([&](Driver& driver) {
        require(kernels != nullptr || numKernels == 0);
        const auto object = driver.handles.get<Library>(lib);
        const size_t count = std::min<size_t>(numKernels, object->program->kernels().size());
        for (uint32_t i = 0; i < count; ++i) kernels[i] = as_handle<CUkernel>(object->kernel(i)->handle);
    });
}

CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
    return context_call([&](Context& context) {
        require(pMod != nullptr);
        const auto module = context.driver.handles.get<Library>(library)->module(context);
        *pMod = as_handle<CUmodule>(module->handle);
    });
}

CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    return context_call([&](Context& context) {
        const auto place = context.driver.handles.get<Library>(library)->module(context)->global(name);
        if (dptr) *dptr = place.address;
        if (bytes) *bytes = place.bytes;
    });
}

// A managed variable is a variable: programs may touch all memory of the device.
CUresult cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    return cuLibraryGetGlobal(dptr, bytes, library, name);
}

CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
    return context_call([&](Context& context) {
        require(pFunc != nullptr);
        const auto object = context.driver.handles.get<Kernel>(kernel);
        *pFunc = as_handle<CUfunction>(object->library->module(context)->function(object->index)->handle);
    });
}

CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
    return kernel_call(kernel, [&](Kernel& object) {
        require(pLib != nullptr);
        *pLib = as_handle<CUlibrary>(object.library->handle);
    });
}

CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
    return kernel_call(hfunc, [&](Kernel& object) {
        require(name != nullptr);
        *name = object.info().name.c_str();
    });
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    return kernel_call(
        kernel, [&](Kernel& object) { param_info(object.info(), paramIndex, paramOffset, paramSize); });
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t* paramCount) {
    return kernel_call(kernel, [&](Kernel& object) {
        require(paramCount != nullptr);
        *paramCount = object.info().params.size();
    });
}

CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
    return kernel_call(kernel, [&](Kernel& object) {
        require(pi != nullptr);
        require_device(dev);
        *pi = function_attribute(object.info(), *object.library->settings(object.index), attrib);
    });
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
    return kernel_call(kernel, [&](Kernel& object) {
        require_device(dev);
        set_function_attribute(object.info(), *object.library->settings(object.index), attrib, val);
    });
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
    return kernel_call(kernel, [&](Kernel&) {
        require_device(dev);
        require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
    });
}
}
