#include "devices.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>

namespace worker {
namespace {

std::string failed(const char* call, CUresult result) {
    const char* name = gk_error_name(result);
    return std::string(call) + " says " + (name ? name : "an unknown error");
}

std::string text_of(const CUuuid& uuid) {
    char text[48];
    const auto* b = reinterpret_cast<const unsigned char*>(uuid.bytes);
    std::snprintf(text, sizeof text,
                  "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                  b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return text;
}

// The 16 bytes of "GPU-8-4-4-4-12 hex digits"; nothing for another text.
std::optional<std::array<uint8_t, 16>> bytes_of(std::string text) {
    if (text.starts_with("GPU-")) text.erase(0, 4);
    std::erase(text, '-');
    std::array<uint8_t, 16> bytes{};
    if (text.size() != 32) return std::nullopt;
    for (size_t i = 0; i < 16; ++i) {
        unsigned value;
        if (std::sscanf(text.c_str() + 2 * i, "%2x", &value) != 1) return std::nullopt;
        bytes[i] = static_cast<uint8_t>(value);
    }
    return bytes;
}

std::optional<CUdevice> find_device(const Driver& driver, const Options& options, size_t index, int count) {
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        CUdevice device;
        CUuuid uuid;
        if (invoke(driver.cuDeviceGet, &device, ordinal) != CUDA_SUCCESS) continue;
        if (invoke(driver.cuDeviceGetUuid_v2, &uuid, device) != CUDA_SUCCESS) continue;
        if (text_of(uuid) == options.slices[index].uuid) return device;
    }
    if (count != static_cast<int>(options.slices.size())) return std::nullopt;
    CUdevice device;
    if (invoke(driver.cuDeviceGet, &device, static_cast<int>(index)) != CUDA_SUCCESS) return std::nullopt;
    return device;
}

void take_snapshot(const Driver& driver, const Options& options, size_t index, Device& device) {
    wire::DeviceSnapshot& snapshot = device.snapshot;
    std::snprintf(snapshot.name, sizeof snapshot.name, "%s", options.name.c_str());
    if (const auto uuid = bytes_of(options.slices[index].uuid)) {
        std::memcpy(snapshot.uuid, uuid->data(), uuid->size());
    } else {
        invoke(driver.cuDeviceGetUuid_v2, reinterpret_cast<CUuuid*>(snapshot.uuid), device.handle);
    }
    invoke(driver.cuDeviceGetPCIBusId, snapshot.pci_bus_id, static_cast<int>(sizeof snapshot.pci_bus_id),
           device.handle);
    snapshot.total_bytes = options.slices[index].mib << 20;
    for (uint32_t i = 0; i < wire::kDeviceAttributes; ++i) {
        snapshot.attribute_status[i] = invoke(driver.cuDeviceGetAttribute, &snapshot.attributes[i],
                                              static_cast<CUdevice_attribute>(i), device.handle);
    }
    for (uint32_t i = 0; i < wire::kDeviceLimits; ++i) {
        size_t value = 0;
        snapshot.limit_status[i] = invoke(driver.cuCtxGetLimit, &value, static_cast<CUlimit>(i));
        snapshot.limits[i] = value;
    }
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device.handle;
    const CUmemAllocationProp* memory = &properties;
    for (auto option : {CU_MEM_ALLOC_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED}) {
        size_t granularity = 0;
        invoke(driver.cuMemGetAllocationGranularity, &granularity, memory, option);
        snapshot.granularity[option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED] = granularity;
    }
    invoke(driver.cuCtxGetStreamPriorityRange, &snapshot.least_priority, &snapshot.greatest_priority);
}

// What other processes of this machine must not see through: nothing of a client can be shared with them. And
// what the client refuses.
void hide(wire::DeviceSnapshot& snapshot) {
    for (CUdevice_attribute attribute :
         {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
          CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
          CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
          CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
          CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1,
          CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1,
          CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
          CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED}) {
        snapshot.attributes[attribute] = 0;
    }
}

}  // namespace

bool open_devices(const Driver& driver, const Options& options, std::vector<Device>& devices,
                  std::string& error) {
    int count = 0;
    if (CUresult result = invoke(driver.cuInit, 0u)) {
        error = failed("cuInit", result);
        return false;
    }
    if (CUresult result = invoke(driver.cuDeviceGetCount, &count)) {
        error = failed("cuDeviceGetCount", result);
        return false;
    }
    for (size_t i = 0; i < options.slices.size(); ++i) {
        Device device;
        const auto found = find_device(driver, options, i, count);
        if (!found) {
            error = "the driver has no GPU " + options.slices[i].uuid;
            return false;
        }
        device.handle = *found;
        if (CUresult result = invoke(driver.cuDevicePrimaryCtxRetain, &device.context, device.handle)) {
            error = failed("cuDevicePrimaryCtxRetain", result);
            return false;
        }
        if (CUresult result = invoke(driver.cuCtxSetCurrent, device.context)) {
            error = failed("cuCtxSetCurrent", result);
            return false;
        }
        if (invoke(driver.cuDeviceGetDefaultMemPool, &device.pool, device.handle) != CUDA_SUCCESS) {
            device.pool = nullptr;
        }
        take_snapshot(driver, options, i, device);
        hide(device.snapshot);
        devices.push_back(device);
    }
    return true;
}

}  // namespace worker
