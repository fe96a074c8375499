// Entry points: memory pools. What does not change in a pool's life is answered here.
#include <cstring>
#include <vector>

#include "placement.h"

using namespace front;

namespace {

CUdevice device_at(const CUmemLocation* location) {
    require(location != nullptr);
    require_done(location->type == CU_MEM_LOCATION_TYPE_DEVICE, "a memory pool that is not on a device");
    platform::require_device(location->id);
    return location->id;
}

CUdevice device_at(const CUmemLocation* location, CUmemAllocationType type) {
    require_done(type == CU_MEM_ALLOCATION_TYPE_PINNED,
                 "a memory pool of memory that is not pinned to its device");
    return device_at(location);
}

bool changes(CUmemPool_attribute attribute) {
    return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
           attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH;
}

bool is_high_mark(CUmemPool_attribute attribute) {
    return attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
}

// Those that programs set.
bool is_setting(CUmemPool_attribute attribute) {
    return changes(attribute) && attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT &&
           attribute != CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
}

// Some are 64-bit numbers, the others ints.
size_t bytes_of(CUmemPool_attribute attribute) {
    const bool is_size =
        (attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH) ||
        attribute == CU_MEMPOOL_ATTR_MAX_POOL_SIZE;
    return is_size ? sizeof(cuuint64_t) : sizeof(int);
}

uint64_t settled(const Pool& pool, CUmemPool_attribute attribute) {
    switch (attribute) {
        case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
            return CU_MEM_ALLOCATION_TYPE_PINNED;
        case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
            return CU_MEM_HANDLE_TYPE_NONE;
        case CU_MEMPOOL_ATTR_LOCATION_ID:
            return static_cast<uint64_t>(pool.device);
        case CU_MEMPOOL_ATTR_LOCATION_TYPE:
            return CU_MEM_LOCATION_TYPE_DEVICE;
        case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
            return pool.max_bytes;
        case CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED:
            return 0;
        default:
            refuse(CUDA_ERROR_INVALID_VALUE);
    }
}

bool is_pool(CUmemoryPool pool) {
    return cuda::guarded([&] { platform::pool(pool); }) == CUDA_SUCCESS;
}

void set_current(CUdevice device, CUmemoryPool pool) {
    require(platform::pool(pool).device == device);
    platform::set_current_pool(device, pool);
    // Another thread that has destroyed it meanwhile has perhaps not seen that it is current.
    if (!is_pool(pool)) platform::set_current_pool(device, platform::default_pool(device));
}

}  // namespace

extern "C" {

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
    return permitted_call([&] {
        require(pool && poolProps);
        require_done(poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE,
                     "a memory pool that other processes may open");
        const CUdevice device = device_at(&poolProps->location, poolProps->allocType);
        *pool = platform::make_pool(device, poolProps->maxSize);
    });
}

// What was allocated from it stays until it is freed.
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    return living_call([&] {
        require(!platform::pool(pool).is_default);
        platform::end_pool(pool);
    });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    return living_call([&] {
        require(value != nullptr);
        const uint64_t answer =
            changes(attr) ? platform::pool_attribute(pool, attr) : settled(platform::pool(pool), attr);
        std::memcpy(value, &answer, bytes_of(attr));
    });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    return living_call([&] {
        require(value && is_setting(attr));
        uint64_t asked = 0;
        std::memcpy(&asked, value, bytes_of(attr));
        require(asked == 0 || !is_high_mark(attr));  // they start again from what is there
        platform::set_pool_attribute(pool, attr, asked);
    });
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    return living_call([&] { platform::trim_pool(pool, minBytesToKeep); });
}

// A pool's own device always has access.
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
    return living_call([&] {
        const CUdevice own = platform::pool(pool).device;
        require(map || count == 0);
        std::vector<Access> asked;
        for (size_t i = 0; i < count; ++i) {
            asked.push_back(access_of(map[i]));
            require(asked.back().granted || asked.back().device != own);
        }
        for (const Access& access : asked) {
            if (access.device != own) platform::set_pool_access(pool, access.device, access.granted);
        }
    });
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
    return call([&] {
        const Pool pool = platform::pool(memPool);
        require(flags && location);
        bool granted = false;
        if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
            platform::require_device(location->id);
            granted = location->id == pool.device || pool.accessible_from >> location->id & 1;
        }
        *flags = granted ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
    return call([&] {
        platform::require_device(dev);
        require(pool_out != nullptr);
        *pool_out = platform::default_pool(dev);
    });
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
    return call([&] {
        platform::require_device(dev);
        require(pool != nullptr);
        *pool = platform::current_pool(dev);
    });
}
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    return call([&] {
        platform::require_device(dev);
        set_current(dev, pool);
    });
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location, CUmemAllocationType type) {
    return call([&] {
        require(pool_out != nullptr);
        *pool_out = platform::default_pool(device_at(location, type));
    });
}
CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
    return call([&] {
        require(pool != nullptr);
        *pool = platform::current_pool(device_at(location, type));
    });
}
CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
    return call([&] { set_current(device_at(location, type), pool); });
}
}
