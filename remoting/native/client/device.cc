// What is asked about devices, answered from the snapshot that came with the worker's welcome.
#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "call.h"
#include "calls_wire.h"
#include "context.h"
#include "session.h"

namespace client {
namespace {

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
    if (CUresult error = Session::get().go_on()) return error;
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

CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice dev) {
    size_t all = 0;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = cuDeviceTotalMem_v2(&all, dev)) return error;
    *bytes = static_cast<unsigned>(std::min<size_t>(all, UINT_MAX));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!prop) return CUDA_ERROR_INVALID_VALUE;
    const int32_t* attributes = snapshot(dev).attributes;
    prop->maxThreadsPerBlock = attributes[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    for (int i = 0; i < 3; ++i) {
        prop->maxThreadsDim[i] = attributes[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i];
        prop->maxGridSize[i] = attributes[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i];
    }
    prop->sharedMemPerBlock = attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK];
    prop->totalConstantMemory = attributes[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY];
    prop->SIMDWidth = attributes[CU_DEVICE_ATTRIBUTE_WARP_SIZE];
    prop->memPitch = attributes[CU_DEVICE_ATTRIBUTE_MAX_PITCH];
    prop->regsPerBlock = attributes[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK];
    prop->clockRate = attributes[CU_DEVICE_ATTRIBUTE_CLOCK_RATE];
    prop->textureAlign = attributes[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT];
    return CUDA_SUCCESS;
}

// A LUID is Windows's.
CUresult cuDeviceGetLuid(char* luid, unsigned int* deviceNodeMask, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements, CUarray_format format,
                                            unsigned numChannels, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!maxWidthInElements) return CUDA_ERROR_INVALID_VALUE;
    *maxWidthInElements = 0;  // there are no textures
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!pi) return CUDA_ERROR_INVALID_VALUE;
    *pi = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice) {
    if (CUresult error = check_device(srcDevice)) return error;
    if (CUresult error = check_device(dstDevice)) return error;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (srcDevice == dstDevice) return CUDA_ERROR_INVALID_DEVICE;
    if (attrib < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
        attrib > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *value = 0;
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
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    const auto index = static_cast<uint32_t>(limit);
    if (index >= CU_LIMIT_MAX || index >= wire::kDeviceLimits) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (!pvalue) return CUDA_ERROR_INVALID_VALUE;
    const wire::DeviceSnapshot& device = snapshot(context->device);
    if (device.limit_status[index]) return static_cast<CUresult>(device.limit_status[index]);
    const bool set = __atomic_load_n(&context->limits_set, __ATOMIC_ACQUIRE) >> index & 1;
    *pvalue = set ? __atomic_load_n(&context->limits[index], __ATOMIC_RELAXED) : device.limits[index];
    return CUDA_SUCCESS;
}

// On the server the contexts of a device are one, which has the most that any of them needs. Caches are the
// whole GPU's, whose other slices are not to be disturbed: what is said of them is kept here alone.
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    Call call;
    if (CUresult error = call.begin()) return error;
    const auto index = static_cast<uint32_t>(limit);
    if (index >= CU_LIMIT_MAX || index >= wire::kDeviceLimits) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    Context* context = current_context();
    if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (int status = snapshot(context->device).limit_status[index]) return static_cast<CUresult>(status);
    if (takes_memory(limit)) {
        const wire::cuCtxSetLimit_message message{index,
                                                  std::max<uint64_t>(value, most_needed(*context, limit))};
        if (CUresult error = call.ask(wire::kOp_cuCtxSetLimit, 0, &message, sizeof message, nullptr, 0))
            return error;
    } else if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH ||
               limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT) {
        static bool told;
        if (value > snapshot(context->device).limits[index])
            return gk_unsupported_once("cuCtxSetLimit for kernels that launch kernels", &told);
    }
    __atomic_store_n(&context->limits[index], value, __ATOMIC_RELAXED);
    __atomic_fetch_or(&context->limits_set, 1u << index, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}
}
