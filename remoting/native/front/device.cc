// Entry points: the devices and what they are.
#include <strings.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "platform.h"

using namespace front;

namespace {

// Runs `body` with the device that the call names.
template <class Body>
CUresult device_call(CUdevice device, Body&& body) noexcept {
    return call([&] {
        platform::require_device(device);
        return body();
    });
}

// "0000:" of a bus may be left out, and letters may be large.
bool same_bus(const char* asked, const std::string& bus) {
    constexpr size_t kDomain = 5;
    if (bus.empty()) return false;  // a device without one is not found by it
    return strcasecmp(asked, bus.c_str()) == 0 ||
           (bus.size() > kDomain && strcasecmp(asked, bus.c_str() + kDomain) == 0);
}

}  // namespace

extern "C" {

CUresult cuDriverGetVersion(int* driverVersion) {
    if (!driverVersion) return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = platform::driver_version();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
    return call([&] {
        require(count != nullptr);
        *count = platform::device_count();
    });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    return device_call(ordinal, [&] {
        require(device != nullptr);
        *device = ordinal;
    });
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
    return device_call(dev, [&] {
        require(name != nullptr && len > 0);
        std::snprintf(name, static_cast<size_t>(len), "%s", platform::device_name(dev).c_str());
    });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
    return device_call(dev, [&] {
        require(uuid != nullptr);
        *uuid = platform::device_uuid(dev);
    });
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
    return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
    return device_call(dev, [&] {
        require(bytes != nullptr);
        *bytes = platform::total_memory(dev);
    });
}
CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice dev) {
    return device_call(dev, [&] {
        require(bytes != nullptr);
        *bytes = static_cast<unsigned>(std::min<size_t>(platform::total_memory(dev), UINT_MAX));
    });
}

CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
    return device_call(dev, [&] {
        require(pi != nullptr);
        *pi = platform::attribute(dev, attrib);
    });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
    return device_call(dev, [&] {
        require(major != nullptr && minor != nullptr);
        *major = platform::attribute(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        *minor = platform::attribute(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    });
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
    return device_call(dev, [&] {
        require(prop != nullptr);
        const auto value = [dev](int attribute) {
            return platform::attribute(dev, static_cast<CUdevice_attribute>(attribute));
        };
        prop->maxThreadsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        for (int i = 0; i < 3; ++i) {
            prop->maxThreadsDim[i] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
            prop->maxGridSize[i] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
        }
        prop->sharedMemPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
        prop->totalConstantMemory = value(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
        prop->SIMDWidth = value(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
        prop->memPitch = value(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
        prop->regsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
        prop->clockRate = value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
        prop->textureAlign = value(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    });
}

// A LUID is Windows's.
CUresult cuDeviceGetLuid(char* luid, unsigned int* deviceNodeMask, CUdevice dev) {
    return device_call(dev, [] { return CUDA_ERROR_NOT_SUPPORTED; });
}

CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
    return device_call(dev, [&] {
        const std::string bus = platform::pci_bus_id(dev);
        require(!bus.empty(), CUDA_ERROR_NOT_SUPPORTED);
        require(pciBusId != nullptr && len > static_cast<int>(bus.size()));
        std::memcpy(pciBusId, bus.c_str(), bus.size() + 1);
    });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
    return call([&] {
        require(dev != nullptr && pciBusId != nullptr);
        const int count = platform::device_count();
        CUdevice found = 0;
        while (found < count && !same_bus(pciBusId, platform::pci_bus_id(found))) ++found;
        require(found < count, CUDA_ERROR_INVALID_DEVICE);
        *dev = found;
    });
}

// There are no textures.
CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements, CUarray_format format,
                                            unsigned numChannels, CUdevice dev) {
    return device_call(dev, [&] {
        require(maxWidthInElements != nullptr);
        *maxWidthInElements = 0;
    });
}

CUresult cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
    return device_call(dev, [&] {
        require(pi != nullptr);
        *pi = 0;
    });
}

// Slices, and software GPUs, are not connected to each other: kernels reach their own device's memory and the
// host's. Copies between them work (cuMemcpyPeer).
CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
    return device_call(dev, [&] {
        platform::require_device(peerDev);
        require(canAccessPeer != nullptr);
        *canAccessPeer = 0;
    });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice) {
    return device_call(srcDevice, [&] {
        platform::require_device(dstDevice);
        require(value != nullptr);
        require(srcDevice != dstDevice, CUDA_ERROR_INVALID_DEVICE);
        require(attrib >= CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK &&
                attrib <= CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED);
        *value = 0;
    });
}

// What a profiler sees of this process are this library's calls.
CUresult cuProfilerStart(void) {
    return call([] { platform::require_working_context(); });
}
CUresult cuProfilerStop(void) {
    return call([] { platform::require_working_context(); });
}
}
