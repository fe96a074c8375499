#include "registry.h"

#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>

#include "fatbinary.h"
#include "forward.h"
#include "log.h"

namespace cudart {
namespace {

struct Registry {
    std::shared_mutex mutex;
    std::unordered_map<const void*, Kernel*> kernels;  // by host address
    std::unordered_map<const void*, Variable*> variables;
    std::unordered_map<CUfunction, Kernel*>
        handles;        // by the driver's handles, of kernels and of their functions
    uint64_t life = 0;  // theirs
};

// Immortal: objects are unregistered by exit handlers, in any order.
Registry& registry() {
    alignas(Registry) static unsigned char storage[sizeof(Registry)];
    static Registry* made = new (storage) Registry;
    return *made;
}

template <typename Map>
typename Map::mapped_type look_up(const Map& map, const typename Map::key_type& key) {
    std::shared_lock lock(registry().mutex);
    auto found = map.find(key);
    return found == map.end() ? nullptr : found->second;
}

cudaError_t handle_of(const Driver& driver, Kernel& kernel, CUkernel& handle) {
    const uint64_t life = life_of(driver);
    handle = kernel.handle.get(life);
    if (handle) return cudaSuccess;
    CUlibrary library;
    CUresult result = load(driver, *kernel.binary, library);
    if (result != CUDA_SUCCESS) return translated(result);
    result = invoke(driver.cuLibraryGetKernel, &handle, library, kernel.name.c_str());
    if (result == CUDA_ERROR_NOT_FOUND) return cudaErrorInvalidDeviceFunction;
    if (result != CUDA_SUCCESS) return translated(result);
    std::unique_lock lock(registry().mutex);
    if (registry().life < life) {
        registry().handles.clear();
        registry().life = life;
    }
    registry().handles[reinterpret_cast<CUfunction>(handle)] = &kernel;
    kernel.handle.keep(life, handle);
    return cudaSuccess;
}

void forget(FatBinary& binary) {
    std::unique_lock lock(registry().mutex);
    Registry& all = registry();
    for (Kernel* kernel : binary.kernels) {
        if (auto found = all.kernels.find(kernel->host);
            found != all.kernels.end() && found->second == kernel) {
            all.kernels.erase(found);
        }
    }
    std::erase_if(all.handles, [&](const auto& known) { return known.second->binary == &binary; });
    for (Variable* variable : binary.variables) {
        auto found = all.variables.find(variable->host);
        if (found != all.variables.end() && found->second == variable) all.variables.erase(found);
    }
}

FatBinary& binary_of(void** handle) {
    return *reinterpret_cast<FatBinary*>(handle);
}

}  // namespace

cudaError_t find_kernel(const Driver& driver, const void* entry, CUkernel& handle) {
    Kernel* kernel = look_up(registry().kernels, entry);
    return kernel ? handle_of(driver, *kernel, handle) : cudaErrorInvalidDeviceFunction;
}

cudaError_t find_function(const Driver& driver, const void* entry, CUfunction& function) {
    if (Kernel* kernel = look_up(registry().kernels, entry)) {
        CUkernel handle;
        const cudaError_t error = handle_of(driver, *kernel, handle);
        if (error == cudaSuccess) function = reinterpret_cast<CUfunction>(handle);
        return error;
    }
    // Not a function of the program: a handle of the driver's, or nothing that can be launched.
    function = reinterpret_cast<CUfunction>(const_cast<void*>(entry));
    const auto handle = reinterpret_cast<CUkernel>(function);
    CUlibrary library;
    CUmodule module;
    if (look_up(registry().handles, function) ||
        invoke(driver.cuKernelGetLibrary, &library, handle) == CUDA_SUCCESS ||
        invoke(driver.cuFuncGetModule, &module, function) == CUDA_SUCCESS) {
        return cudaSuccess;
    }
    return cudaErrorInvalidDeviceFunction;
}

cudaError_t find_context_function(const Driver& driver, const void* entry, CUfunction& function) {
    if (cudaError_t error = find_function(driver, entry, function); error != cudaSuccess) return error;
    CUfunction own;
    // What is no kernel is a function already.
    const auto handle = reinterpret_cast<CUkernel>(function);
    if (invoke(driver.cuKernelGetFunction, &own, handle) != CUDA_SUCCESS) return cudaSuccess;
    if (Kernel* kernel = look_up(registry().handles, function); kernel && own != function) {
        std::unique_lock lock(registry().mutex);
        registry().handles[own] = kernel;
    }
    function = own;
    return cudaSuccess;
}

void* host_address(CUfunction function) {
    const Kernel* known = look_up(registry().handles, function);
    return known ? const_cast<void*>(known->host) : static_cast<void*>(function);
}

cudaError_t find_variable(const Driver& driver, const void* symbol, CUdeviceptr& address, size_t& bytes) {
    Variable* variable = look_up(registry().variables, symbol);
    if (!variable) return cudaErrorInvalidSymbol;
    CUlibrary library;
    CUresult result = load(driver, *variable->binary, library);
    if (result != CUDA_SUCCESS) return translated(result);
    result = invoke(driver.cuLibraryGetGlobal, &address, &bytes, library, variable->name.c_str());
    return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : translated(result);
}

cudaError_t find_part(const Driver& driver, const void* symbol, size_t offset, size_t bytes, void*& address) {
    CUdeviceptr start;
    size_t whole;
    if (cudaError_t error = find_variable(driver, symbol, start, whole); error != cudaSuccess) return error;
    if (offset > whole || bytes > whole - offset) return cudaErrorInvalidValue;
    address = reinterpret_cast<void*>(start + offset);
    return cudaSuccess;
}

CUresult show_managed(const Driver& driver, FatBinary& binary, CUlibrary library) {
    for (const ManagedVariable& managed : binary.managed) {
        CUdeviceptr address = 0;
        size_t bytes = 0;
        const CUresult result =
            invoke(driver.cuLibraryGetManaged, &address, &bytes, library, managed.name.c_str());
        if (result != CUDA_SUCCESS) return result;
        *managed.pointer = reinterpret_cast<void*>(address);
        std::unique_lock lock(registry().mutex);
        auto& variables = registry().variables;
        const auto is_this = [&](const Variable& one) {
            return one.binary == &binary && one.name == managed.name;
        };
        // In another life it may stand where another variable stood before.
        std::erase_if(variables,
                      [&](const auto& one) { return one.first != *managed.pointer && is_this(*one.second); });
        Variable*& known = variables[*managed.pointer];
        if (known && is_this(*known)) continue;
        known = new Variable{&binary, *managed.pointer, managed.name, managed.bytes};
        binary.variables.push_back(known);
    }
    return CUDA_SUCCESS;
}

}  // namespace cudart

using namespace cudart;

extern "C" {

void** __cudaRegisterFatBinary(void* fatCubin) {
    auto* binary = new FatBinary;
    binary->wrapper = fatCubin;
    return reinterpret_cast<void**>(binary);
}

void __cudaRegisterFatBinaryEnd(void** fatCubinHandle) {}

void __cudaUnregisterFatBinary(void** fatCubinHandle) {
    // In a forked child a thread that is gone may hold a lock, and what the parent has is not the child's to
    // give back.
    if (!fatCubinHandle || forked()) return;
    FatBinary& binary = binary_of(fatCubinHandle);
    forget(binary);
    const Driver* driver = opened_driver();
    if (!driver) return;
    // At exit: who loads it may have been interrupted by the exit, or be gone. It then goes with the session.
    const std::unique_lock lock(binary.mutex, std::try_to_lock);
    if (!lock) return;
    const uint64_t life = life_of(*driver);
    if (CUlibrary library = binary.library.get(life)) {
        binary.library.keep(life, nullptr);
        invoke(driver->cuLibraryUnload, library);
    }
    // Kept, a few bytes an object: another thread may be in a call with one of its kernels.
}

void __cudaRegisterFunction(void** fatCubinHandle, const char* hostFun, char* deviceFun,
                            const char* deviceName, int thread_limit, uint3* tid, uint3* bid, dim3* bDim,
                            dim3* gDim, int* wSize) {
    if (!fatCubinHandle || !hostFun || !deviceName) return;
    FatBinary& binary = binary_of(fatCubinHandle);
    auto* kernel = new Kernel{.binary = &binary, .host = hostFun, .name = deviceName};
    std::unique_lock lock(registry().mutex);
    binary.kernels.push_back(kernel);
    registry().kernels[hostFun] = kernel;
}

void __cudaRegisterVar(void** fatCubinHandle, char* hostVar, char* deviceAddress, const char* deviceName,
                       int ext, size_t size, int constant, int global) {
    if (!fatCubinHandle || !hostVar || !deviceName) return;
    FatBinary& binary = binary_of(fatCubinHandle);
    auto* variable = new Variable{.binary = &binary, .host = hostVar, .name = deviceName, .bytes = size};
    std::unique_lock lock(registry().mutex);
    binary.variables.push_back(variable);
    registry().variables[hostVar] = variable;
}

void __cudaRegisterManagedVar(void** fatCubinHandle, void** hostVarPtrAddress, char* deviceAddress,
                              const char* deviceName, int ext, size_t size, int constant, int global) {
    if (!fatCubinHandle || !hostVarPtrAddress || !deviceName) return;
    binary_of(fatCubinHandle).managed.push_back({hostVarPtrAddress, deviceName, size});
}

// Called before the program first looks at one of its managed variables: their addresses are asked for now.
char __cudaInitModule(void** fatCubinHandle) {
    if (!fatCubinHandle) return 0;
    FatBinary& binary = binary_of(fatCubinHandle);
    const cudaError_t error = call<Need::context>([&](const Driver& driver) {
        CUlibrary library;
        binary.shows_managed = true;
        return load(driver, binary, library);
    });
    if (error != cudaSuccess && !binary.managed.empty()) {
        // The program follows a null pointer next: say why.
        const bool refused = error == cudaErrorNotSupported;
        tell_user(std::string("the managed variables of this program cannot be made: ") +
                  cudaGetErrorName(error) +
                  (refused ? ". Use cudaMallocManaged or cudaMalloc in their place" : ""));
    }
    return error == cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t* kernelPtr, const void* entryFuncAddr) {
    return call<Need::context>([&](const Driver& driver) {
        if (!kernelPtr) return cudaErrorInvalidValue;
        CUkernel kernel;
        const cudaError_t error = find_kernel(driver, entryFuncAddr, kernel);
        if (error == cudaSuccess) *kernelPtr = as<cudaKernel_t>(kernel);
        return error;
    });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* functionPtr, const void* symbolPtr) {
    return call<Need::context>([&](const Driver& driver) {
        if (!functionPtr) return cudaErrorInvalidValue;
        CUfunction function;
        const cudaError_t error = find_context_function(driver, symbolPtr, function);
        if (error == cudaSuccess) *functionPtr = as<cudaFunction_t>(function);
        return error;
    });
}
}
