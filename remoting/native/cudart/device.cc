// Devices: which there are, which one a thread uses, resets, versions.
#include <cstring>

#include "forward.h"
#include "log.h"

using namespace cudart;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    if (!count) return finish(cudaErrorInvalidValue);
    *count = 0;
    const cudaError_t error = forward<Need::driver>(&Driver::cuDeviceGetCount, count);
    return error == cudaSuccess && *count == 0 ? finish(cudaErrorNoDevice) : error;
}

cudaError_t cudaSetDevice(int device) {
    return call<Need::driver>([&](const Driver& driver) { return choose_device(driver, device); });
}

cudaError_t cudaGetDevice(int* device) {
    return call<Need::driver>([&](const Driver& driver) {
        if (!device) return cudaErrorInvalidValue;
        *device = current_device(driver);
        return cudaSuccess;
    });
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
    return call<Need::driver>([&](const Driver& driver) {
        if (flags & ~cudaInitDeviceFlagsAreValid) return CUDA_ERROR_INVALID_VALUE;
        if (flags & cudaInitDeviceFlagsAreValid) {
            const CUresult result = invoke(driver.cuDevicePrimaryCtxSetFlags_v2, device, deviceFlags);
            if (result != CUDA_SUCCESS) return result;
        }
        CUcontext context;
        return primary_context(driver, device, context);
    });
}

// The device that the program names first is the first that it may use; a list of them narrows nothing else.
cudaError_t cudaSetValidDevices(int* device_arr, int len) {
    return call<Need::driver>([&](const Driver& driver) {
        if (len < 0 || (len > 0 && !device_arr)) return cudaErrorInvalidValue;
        for (int i = 0; i < len; ++i) {
            CUdevice handle;
            if (driver.cuDeviceGet(&handle, device_arr[i]) != CUDA_SUCCESS) return cudaErrorInvalidDevice;
        }
        return choose_later(driver, len ? device_arr[0] : 0);
    });
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
    return call<Need::driver>([&](const Driver& driver) {
        if (flags & ~cudaDeviceMask) return CUDA_ERROR_INVALID_VALUE;
        return invoke(driver.cuDevicePrimaryCtxSetFlags_v2, current_device(driver), flags);
    });
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
    return call<Need::driver>([&](const Driver& driver) {
        int active;
        if (!flags) return CUDA_ERROR_INVALID_VALUE;
        const CUresult result =
            invoke(driver.cuDevicePrimaryCtxGetState, current_device(driver), flags, &active);
        *flags |= cudaDeviceMapHost;
        return result;
    });
}

cudaError_t cudaDeviceReset(void) {
    return call<Need::context_if_alive>(
        [](const Driver& driver) { return reset_device(driver, current_device(driver)); });
}

#if CUDART_VERSION < 13000
cudaError_t cudaThreadExit(void) {
    return cudaDeviceReset();
}
#endif

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
    return call<Need::context>([&](const Driver& driver) {
        CUcontext peer;
        if (flags) return CUDA_ERROR_INVALID_VALUE;
        if (peerDevice == current_device(driver)) return CUDA_ERROR_INVALID_DEVICE;
        const CUresult result = primary_context(driver, peerDevice, peer);
        return result == CUDA_SUCCESS ? invoke(driver.cuCtxEnablePeerAccess, peer, 0u) : result;
    });
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice) {
    return call<Need::context>([&](const Driver& driver) {
        CUcontext peer;
        const CUresult result = primary_context(driver, peerDevice, peer);
        return result == CUDA_SUCCESS ? invoke(driver.cuCtxDisablePeerAccess, peer) : result;
    });
}

cudaError_t cudaDriverGetVersion(int* driverVersion) {
    if (!driverVersion) return finish(cudaErrorInvalidValue);
    *driverVersion = 0;
    // Without a driver its version is 0, and that is no error.
    cudaError_t error;
    const Driver* driver = use_driver(error);
    if (!driver) driver = opened_driver();
    if (!driver) return cudaSuccess;
    return finish(translated(invoke(driver->cuDriverGetVersion, driverVersion)));
}

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
    if (!runtimeVersion) return finish(cudaErrorInvalidValue);
    *runtimeVersion = CUDART_VERSION;
    return cudaSuccess;
}

// The runtime's own tables are for NVIDIA's tools; here there is none.
cudaError_t cudaGetExportTable(const void** ppExportTable, const cudaUUID_t* pExportTableId) {
    if (ppExportTable) *ppExportTable = nullptr;
    return finish(cudaErrorSymbolNotFound);
}
}
