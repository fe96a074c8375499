// Entry points: addresses and memory apart from each other.
#include <bit>
#include <vector>

#include "placement.h"

using namespace front;

namespace {

constexpr size_t kPage = 4096;  // the least that a host has

// What of the properties is not done here; null where all is.
const char* undone(const CUmemAllocationProp& properties) {
    if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return "cuMemCreate of memory that is not pinned to its place";
    }
    if (properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        return "cuMemCreate of memory that other processes may open";
    }
    if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return "cuMemCreate of memory that is not on a device";
    }
    return nullptr;
}

// Memory is created and mapped in multiples of this.
size_t granularity(CUdevice device, bool recommended = false) {
    const size_t bytes = platform::granularity(device, recommended);
    require(bytes > 0, CUDA_ERROR_NOT_SUPPORTED);
    return bytes;
}

}  // namespace

extern "C" {

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
    return permitted_call([&] {
        require(ptr && flags == 0 && size > 0 && size % kPage == 0 && addr % kPage == 0);
        require(alignment == 0 || std::has_single_bit(alignment));
        *ptr = platform::reserve_addresses(size, alignment, addr);
    });
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    return living_call([&] { platform::free_addresses(ptr, size); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
    return permitted_call([&] {
        require(handle && prop && size > 0 && flags == 0);
        const char* missing = undone(*prop);
        require_done(!missing, missing);
        const CUdevice device = prop->location.id;
        platform::require_device(device);
        require(size % granularity(device) == 0);
        *handle = platform::create_memory(device, size);
    });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    return living_call([&] { platform::release_memory(handle); });
}

// The same handle as it was mapped by, with one more reference.
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
    return call([&] {
        require(handle != nullptr);
        *handle = platform::retain_memory(reinterpret_cast<CUdeviceptr>(addr));
    });
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    return living_call([&] {
        require(size > 0 && offset == 0 && flags == 0);
        const size_t granule = granularity(platform::device_of_memory(handle));
        require(ptr % granule == 0 && size % granule == 0);
        platform::map_memory(ptr, size, handle);
    });
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    return living_call([&] { platform::unmap_memory(ptr, size); });
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
    return living_call([&] {
        require(desc && count > 0);
        std::vector<Access> asked;
        for (size_t i = 0; i < count; ++i) asked.push_back(access_of(desc[i]));
        for (const Access& access : asked) platform::set_access(ptr, size, access.device, access.granted);
    });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
    return call([&] {
        require(flags && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE);
        const uint32_t accessible_from = platform::mapping_accessible_from(ptr);
        platform::require_device(location->id);
        const bool granted = accessible_from >> location->id & 1;
        *flags = granted ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    });
}

// Who only asks, and will do it in another way, is told by the answer alone.
CUresult cuMemGetAllocationGranularity(size_t* granularity_out, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
    return call([&] {
        const bool recommended = option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        require(granularity_out && prop && (recommended || option == CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        require(!undone(*prop), CUDA_ERROR_NOT_SUPPORTED);
        platform::require_device(prop->location.id);
        *granularity_out = granularity(prop->location.id, recommended);
    });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
    return call([&] {
        require(prop != nullptr);
        const CUdevice device = platform::device_of_memory(handle);
        *prop = {};
        prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop->requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
        prop->location = cuda::location_of(device);
    });
}
}
