// The driver's functions by name, for programs that do not link to it.
#include "forward.h"

using namespace cudart;

namespace {

cudaError_t entry_point(const char* symbol, void** function, int version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* status) {
    return call<Need::driver>([&](const Driver& driver) {
        if (!symbol || !function) return cudaErrorInvalidValue;
        *function = nullptr;
        CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        const CUresult result =
            invoke(driver.cuGetProcAddress_v2, symbol, function, version, as<cuuint64_t>(flags), &answer);
        if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(answer);
        if (result != CUDA_SUCCESS) return translated(result);
        return *function || status ? cudaSuccess : cudaErrorSymbolNotFound;
    });
}

// "Default" is what the program was compiled for.
unsigned long long per_thread_flags(unsigned long long flags) {
    return flags == cudaEnableDefault ? +cudaEnablePerThreadDefaultStream : flags;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** funcPtr, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* driverStatus) {
    return entry_point(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** funcPtr, unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* driverStatus) {
    return entry_point(symbol, funcPtr, CUDART_VERSION, per_thread_flags(flags), driverStatus);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** funcPtr, unsigned int cudaVersion,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* driverStatus) {
    return entry_point(symbol, funcPtr, static_cast<int>(cudaVersion), flags, driverStatus);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** funcPtr,
                                                  unsigned int cudaVersion, unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* driverStatus) {
    return entry_point(symbol, funcPtr, static_cast<int>(cudaVersion), per_thread_flags(flags), driverStatus);
}
}
