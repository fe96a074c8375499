// Entry points: reserving addresses, creating memory, and mapping one on the other.
#include "driver.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

// Memory that stays on the device and in this process.
void check_properties(const CUmemAllocationProp* properties) {
    require(properties != nullptr);
    require(properties->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
    require(properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
    require(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    require_device(properties->location.id);
}

CUmemAllocationProp properties_of(const Physical& physical) {
    CUmemAllocationProp known{};
    known.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    known.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    known.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    known.location.id = physical.device;
    return known;
}

std::shared_ptr<Physical> find(Driver& driver, CUmemGenericAllocationHandle handle) {
    auto found = driver.handles.find<Physical>(handle);
    require(found != nullptr);
    return found;
}

}  // namespace

extern "C" {

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
    return driver_call([&](Driver& driver) {
        require(ptr != nullptr && flags == 0);
        *ptr = driver.memory.addresses().reserve(size, alignment, addr);
    });
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    return driver_call([&](Driver& driver) { driver.memory.addresses().free(ptr, size); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
    return driver_call([&](Driver& driver) {
        require(handle != nullptr && flags == 0 && size > 0 && size % VirtualMemory::kGranularity == 0);
        check_properties(prop);
        const auto physical = Physical::create(driver.memory, prop->location.id, size);
        *handle = driver.memory.addresses().add_handle(driver.handles, physical);
    });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    return driver_call([&](Driver& driver) {
        driver.memory.addresses().release_handle(driver.handles, find(driver, handle));
    });
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    return driver_call([&](Driver& driver) {
        require(offset == 0 && flags == 0);
        driver.memory.addresses().map(ptr, size, find(driver, handle));
    });
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    return driver_call([&](Driver& driver) { driver.memory.addresses().unmap(ptr, size); });
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
    return driver_call([&](Driver& driver) {
        require(desc != nullptr && count > 0);
        for (size_t i = 0; i < count; ++i) {
            require(desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
            require_device(desc[i].location.id);
            const bool none = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
            require(none || desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                    desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? CUDA_ERROR_NOT_SUPPORTED
                                                                   : CUDA_ERROR_INVALID_VALUE);
            driver.memory.addresses().set_access(ptr, size, desc[i].location.id, !none);
        }
    });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
    return driver_call([&](Driver& driver) {
        require(flags != nullptr && location != nullptr);
        require(location->type == CU_MEM_LOCATION_TYPE_DEVICE);
        require_device(location->id);
        const auto mapping = driver.memory.addresses().find(ptr);
        require(mapping.has_value());
        const bool granted = mapping->accessible && mapping->physical->device == location->id;
        *flags = granted ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    });
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
    return driver_call([&](Driver& driver) {
        require(granularity != nullptr && (option == CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
                                           option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
        check_properties(prop);
        *granularity = VirtualMemory::kGranularity;
    });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
    return driver_call([&](Driver& driver) {
        require(prop != nullptr);
        *prop = properties_of(*find(driver, handle));
    });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
    return driver_call([&](Driver& driver) {
        require(handle != nullptr);
        const auto mapping = driver.memory.addresses().find(reinterpret_cast<uint64_t>(addr));
        require(mapping.has_value());
        *handle = driver.memory.addresses().add_handle(driver.handles, mapping->physical);
    });
}
}
