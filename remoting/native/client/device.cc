// What is asked about devices, answered from the snapshot that came with the worker's welcome.
#include <cstdio>
#include <cstring>
#include <mutex>

#include "call.h"
#include "calls_wire.h"
#include "context.h"
#include "session.h"

namespace client {
namespace {

// Limits that the program has set, by device; the snapshot holds the worker's.
struct Limits {
    std::mutex mutex;
    bool set[wire::kMaxDevices][wire::kDeviceLimits] = {};
    uint64_t value[wire::kMaxDevices][wire::kDeviceLimits] = {};
};

Limits& limits() {
    static auto* all = new Limits;
    return *all;
}

const wire::DeviceSnapshot& snapshot(CUdevice device) {
    return Session::get().devices()[static_cast<size_t>(device)];
}

}  // namespace
}  // namespace client

using namespace client;

extern "C" {

CUresult cuDriverGetVersion(int* driverVersion) {
    if (!driverVersion) return CUDA_ERROR_INVALID_VALUE;
    // CUDA answers this before cuInit too. Without a worker, the version of the headers is the best answer.
    const int version = Session::get().driver_version();
    *driverVersion = version ? version : CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    *count = static_cast<int>(Session::get().devices().size());
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = check_device(ordinal)) return error;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!name || len <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(name, static_cast<size_t>(len), "%s", snapshot(dev).name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(uuid->bytes, snapshot(dev).uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
    return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *bytes = snapshot(dev).total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    const auto index = static_cast<uint32_t>(attrib);
    if (!pi || index >= wire::kDeviceAttributes) return CUDA_ERROR_INVALID_VALUE;
    const wire::DeviceSnapshot& device = snapshot(dev);
    if (device.attribute_status[index]) return static_cast<CUresult>(device.attribute_status[index]);
    *pi = device.attributes[index];
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
    if (CUresult error = cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev)) {
        return error;
    }
    return cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
}

CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!pciBusId || len <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!snapshot(dev).pci_bus_id[0]) return CUDA_ERROR_NOT_SUPPORTED;
    std::snprintf(pciBusId, static_cast<size_t>(len), "%s", snapshot(dev).pci_bus_id);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
    if (CUresult error = check_device(0)) return error;
    if (!dev || !pciBusId) return CUDA_ERROR_INVALID_VALUE;
    const auto& devices = Session::get().devices();
    for (size_t i = 0; i < devices.size(); ++i) {
        if (std::strcmp(devices[i].pci_bus_id, pciBusId) != 0) continue;
        *dev = static_cast<CUdevice>(i);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

// The slices of a lease are not connected to each other.
CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
    if (CUresult error = check_device(dev)) return error;
    if (CUresult error = check_device(peerDev)) return error;
    if (!canAccessPeer) return CUDA_ERROR_INVALID_VALUE;
    *canAccessPeer = 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    const wire::DeviceSnapshot& device = snapshot(context->device);
    if (leastPriority) *leastPriority = device.least_priority;
    if (greatestPriority) *greatestPriority = device.greatest_priority;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    const auto index = static_cast<uint32_t>(limit);
    if (!pvalue || index >= wire::kDeviceLimits) return CUDA_ERROR_INVALID_VALUE;
    const wire::DeviceSnapshot& device = snapshot(context->device);
    if (device.limit_status[index]) return static_cast<CUresult>(device.limit_status[index]);
    const std::lock_guard lock(limits().mutex);
    *pvalue =
        limits().set[context->device][index] ? limits().value[context->device][index] : device.limits[index];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    Call call;
    if (CUresult error = call.begin()) return error;
    const auto index = static_cast<uint32_t>(limit);
    if (index >= wire::kDeviceLimits) return CUDA_ERROR_INVALID_VALUE;
    if (int status = snapshot(call.device()).limit_status[index]) return static_cast<CUresult>(status);
    {
        const std::lock_guard lock(limits().mutex);
        limits().set[call.device()][index] = true;
        limits().value[call.device()][index] = value;
    }
    const wire::cuCtxSetLimit_message message{index, value};
    return call.post(wire::kOp_cuCtxSetLimit, 0, &message, sizeof message);
}
}
