// Entry points: libraries, and modules, which are libraries of one context.
#include "library.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "platform.h"
#include "wire/protocol.h"

using namespace front;
using platform::Library;

namespace {

// What is done with a module is done in the calling thread's context, and with a library in none.
template <class Handle, class Body>
CUresult library_call(Body&& body) noexcept {
    return call([&] {
        if constexpr (std::is_same_v<Handle, CUmodule>) platform::require_working_context();
        return body();
    });
}

// The same for what no function may do that a stream calls.
template <class Handle, class Body>
CUresult changing_call(Body&& body) noexcept {
    return permitted_call([&] { return library_call<Handle>(body); });
}

struct Options {
    unsigned count = 0;
    const CUjit_option* names = nullptr;
    void** values = nullptr;
};

template <class Handle>
void load_image(Handle* out, const Image& image, const Options& options) {
    const JitOptions jit(options.count, options.names, options.values);
    const auto began = std::chrono::steady_clock::now();
    *out = Library<Handle>::load(image, jit);
    jit.tell_time(std::chrono::steady_clock::now() - began);
}

template <class Handle>
CUresult load(Handle* out, const void* data, const Options& options = {}) {
    return changing_call<Handle>([&] {
        require(out != nullptr && data != nullptr);
        load_image(out, {data}, options);
    });
}

template <class Handle>
CUresult load_file(Handle* out, const char* path, const Options& options = {}) {
    return changing_call<Handle>([&] {
        require(out != nullptr);
        const std::string bytes = read_image_file(path);
        load_image(out, {bytes.data(), bytes.size(), file_name(path)}, options);
    });
}

// They are about code of the host, which is not here.
void check_options(unsigned count, const CUlibraryOption* options) {
    require(count == 0 || options != nullptr);
    for (unsigned i = 0; i < count; ++i) {
        require(options[i] >= CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE &&
                options[i] < CU_LIBRARY_NUM_OPTIONS);
    }
}

template <class Handle>
CUresult get_kernel(platform::KernelIn<Handle>* out, Handle handle, const char* name) {
    return library_call<Handle>([&] {
        require(out != nullptr && name != nullptr);
        *out = Library(handle).kernel(name);
    });
}

template <class Handle>
CUresult count_kernels(unsigned* count, Handle handle) {
    return library_call<Handle>([&] {
        require(count != nullptr);
        *count = static_cast<unsigned>(Library(handle).kernel_count());
    });
}

template <class Handle>
CUresult list_kernels(platform::KernelIn<Handle>* out, unsigned room, Handle handle) {
    return library_call<Handle>([&] {
        require(out != nullptr || room == 0);
        const Library library(handle);
        const size_t count = std::min<size_t>(room, library.kernel_count());
        for (size_t i = 0; i < count; ++i) out[i] = library.kernel(i);
    });
}

template <class Handle>
CUresult get_variable(CUdeviceptr* address, size_t* bytes, Handle handle, const char* name,
                      bool managed = false) {
    return call([&] {
        platform::require_working_context();
        require(name != nullptr);
        const Variable found = Library(handle).variable(name, managed);
        if (address) *address = found.address;
        if (bytes) *bytes = found.bytes;
    });
}

template <class Handle>
CUresult unload(Handle handle) {
    return changing_call<Handle>([&] { Library(handle).unload(); });
}

}  // namespace

const char* front::file_name(const char* path) {
    const char* const slash = std::strrchr(path, '/');
    return slash ? slash + 1 : path;
}

std::string front::read_image_file(const char* path) {
    require(path != nullptr);
    std::ifstream file(path, std::ios::binary);
    require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
    std::string bytes;
    char block[65536];
    while (file.read(block, sizeof block) || file.gcount() > 0) {
        bytes.append(block, static_cast<size_t>(file.gcount()));
        require(bytes.size() <= wire::kMaxImage, CUDA_ERROR_INVALID_IMAGE);
    }
    require(!file.bad(), CUDA_ERROR_FILE_NOT_FOUND);  // as a folder is
    require(!bytes.empty(), CUDA_ERROR_INVALID_IMAGE);
    return bytes;
}

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                           void** jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption* libraryOptions, void** libraryOptionValues,
                           unsigned int numLibraryOptions) {
    return call([&] {
        check_options(numLibraryOptions, libraryOptions);
        return load(library, code, {numJitOptions, jitOptions, jitOptionsValues});
    });
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                               void** jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption* libraryOptions, void** libraryOptionValues,
                               unsigned int numLibraryOptions) {
    return call([&] {
        check_options(numLibraryOptions, libraryOptions);
        return load_file(library, fileName, {numJitOptions, jitOptions, jitOptionsValues});
    });
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                            CUjit_option* options, void** optionValues) {
    return load(module, image, {numOptions, options, optionValues});
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    return load(module, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
    return load(module, fatCubin);
}
CUresult cuModuleLoad(CUmodule* module, const char* fname) {
    return load_file(module, fname);
}

CUresult cuLibraryUnload(CUlibrary library) {
    return unload(library);
}
CUresult cuModuleUnload(CUmodule hmod) {
    return unload(hmod);
}

// What is loaded is loaded whole.
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    return call([&] {
        require(mode != nullptr);
        *mode = CU_MODULE_EAGER_LOADING;
    });
}

CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
    return get_kernel(pKernel, library, name);
}
CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
    return get_kernel(hfunc, hmod, name);
}
CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
    return count_kernels(count, lib);
}
CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
    return count_kernels(count, mod);
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
    return list_kernels(kernels, numKernels, lib);
}
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
    return list_kernels(functions, numFunctions, mod);
}

CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
    return call([&] {
        platform::require_working_context();
        require(pMod != nullptr);
        *pMod = Library(library).module();
    });
}
CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    return get_variable(dptr, bytes, library, name);
}
CUresult cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    return get_variable(dptr, bytes, library, name, true);
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
    return get_variable(dptr, bytes, hmod, name);
}
}
