// Entry points: initialisation, the device and what it is.
#include <strings.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>

#include "attributes.h"
#include "driver.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

// No bus; the form that programs parse, with a number for each device.
std::string pci_bus_id(const DeviceConfig& device) {
    char text[16];
    std::snprintf(text, sizeof text, "0000:00:%02x.0", device.number);
    return text;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int Flags) {
    return Flags == 0 ? Driver::initialize() : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int* driverVersion) {
    if (!driverVersion) return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    return driver_call([&](Driver&) {
        require(device != nullptr);
        require_device(ordinal);
        *device = ordinal;
    });
}

CUresult cuDeviceGetCount(int* count) {
    return driver_call([&](Driver& driver) {
        require(count != nullptr);
        *count = static_cast<int>(driver.config.devices.size());
    });
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require(name != nullptr && len > 0);
        require_device(dev);
        std::snprintf(name, static_cast<size_t>(len), "%s", driver.config.name.c_str());
    });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require(uuid != nullptr);
        require_device(dev);
        std::memcpy(uuid->bytes, driver.config.devices[static_cast<size_t>(dev)].uuid.data(),
                    sizeof uuid->bytes);
    });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
    return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require(bytes != nullptr);
        require_device(dev);
        *bytes = driver.memory.space(dev).total_bytes();
    });
}

CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require(pi != nullptr);
        require_device(dev);
        const auto value = device_attribute(driver.config, attrib);
        require(value.has_value());
        *pi = *value;
    });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
    return driver_call([&](Driver&) {
        require(major != nullptr && minor != nullptr);
        require_device(dev);
        *major = kComputeMajor;
        *minor = kComputeMinor;
    });
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require(prop != nullptr);
        require_device(dev);
        auto value = [&driver](CUdevice_attribute attribute) {
            return device_attribute(driver.config, attribute).value_or(0);
        };
        prop->maxThreadsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        prop->maxThreadsDim[0] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
        prop->maxThreadsDim[1] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
        prop->maxThreadsDim[2] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
        prop->maxGridSize[0] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
        prop->maxGridSize[1] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
        prop->maxGridSize[2] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
        prop->sharedMemPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
        prop->totalConstantMemory = value(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
        prop->SIMDWidth = value(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
        prop->memPitch = value(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
        prop->regsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
        prop->clockRate = value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
        prop->textureAlign = value(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    });
}

CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice dev) {
    size_t all = 0;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = cuDeviceTotalMem_v2(&all, dev)) return error;
    *bytes = static_cast<unsigned>(std::min<size_t>(all, UINT_MAX));
    return CUDA_SUCCESS;
}

// A LUID is Windows's.
CUresult cuDeviceGetLuid(char* luid, unsigned int* deviceNodeMask, CUdevice dev) {
    return driver_call([&](Driver&) {
        require_device(dev);
        refuse(CUDA_ERROR_NOT_SUPPORTED);
    });
}

CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require_device(dev);
        const std::string text = pci_bus_id(driver.config.devices[static_cast<size_t>(dev)]);
        require(pciBusId != nullptr && len > static_cast<int>(text.size()));
        std::strcpy(pciBusId, text.c_str());
    });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
    return driver_call([&](Driver& driver) {
        require(dev != nullptr && pciBusId != nullptr);
        for (size_t i = 0; i < driver.config.devices.size(); ++i) {
            const std::string text = pci_bus_id(driver.config.devices[i]);
            constexpr size_t kDomain = 5;  // "0000:" may be left out
            if (strcasecmp(pciBusId, text.c_str()) != 0 && strcasecmp(pciBusId, text.c_str() + kDomain) != 0)
                continue;
            *dev = static_cast<CUdevice>(i);
            return;
        }
        refuse(CUDA_ERROR_INVALID_DEVICE);
    });
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements, CUarray_format format,
                                            unsigned numChannels, CUdevice dev) {
    return driver_call([&](Driver&) {
        require(maxWidthInElements != nullptr);
        require_device(dev);
        *maxWidthInElements = 0;
    });
}

CUresult cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
    return driver_call([&](Driver&) {
        require(pi != nullptr);
        require_device(dev);
        *pi = 0;
    });
}

// Each device's kernels reach its own memory and the host's only.
CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
    return driver_call([&](Driver&) {
        require(canAccessPeer != nullptr);
        require_device(dev);
        require_device(peerDev);
        *canAccessPeer = 0;
    });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice) {
    return driver_call([&](Driver&) {
        require(value != nullptr);
        require_device(srcDevice);
        require_device(dstDevice);
        require(srcDevice != dstDevice, CUDA_ERROR_INVALID_DEVICE);
        require(attrib >= CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK &&
                attrib <= CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED);
        *value = 0;
    });
}

CUresult cuProfilerStart(void) {
    return context_call([](Context&) {});
}

CUresult cuProfilerStop(void) {
    return context_call([](Context&) {});
}
}
