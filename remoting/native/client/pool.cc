#include "pool.h"

#include <cstring>
#include <mutex>

#include "call.h"
#include "calls_wire.h"
#include "context.h"
#include "log.h"
#include "session.h"

namespace client {
namespace {

HandleTable<Pool>& pools() {
    static auto* table = new HandleTable<Pool>(wire::HandleKind::pool);
    return *table;
}

// A device's default pool has a handle as others have, and keeps it from one life to the next; on the wire it
// is its device's number in the lease.
struct Defaults {
    std::mutex mutex;
    std::atomic<uint64_t> handle[wire::kMaxDevices]{};   // 0: not asked for yet
    std::atomic<uint64_t> current[wire::kMaxDevices]{};  // 0: the default one
};

Defaults& defaults() {
    static auto* all = new Defaults;
    return *all;
}

// Where a pool's memory is. Only devices have pools here.
CUresult device_at(const CUmemLocation* location, uint8_t& device) {
    if (!location) return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
        static bool told;
        return gk_unsupported_once("a memory pool that is not on a device", &told);
    }
    device = static_cast<uint8_t>(location->id);
    return check_device(location->id);
}

CUresult of_pinned_type(CUmemAllocationType type) {
    if (type == CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_SUCCESS;
    static bool told;
    return gk_unsupported_once("a memory pool of managed memory", &told);
}

// The attributes that are 64-bit numbers; the others are ints.
bool is_size(CUmemPool_attribute attribute) {
    return (attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH) ||
           attribute == CU_MEMPOOL_ATTR_MAX_POOL_SIZE;
}

// What does not change in a pool's life is answered here.
bool known_here(const Pool& pool, CUmemPool_attribute attribute, uint64_t& value) {
    switch (attribute) {
        case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
            value = CU_MEM_ALLOCATION_TYPE_PINNED;
            return true;
        case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
            value = CU_MEM_HANDLE_TYPE_NONE;
            return true;
        case CU_MEMPOOL_ATTR_LOCATION_ID:
            value = pool.device;
            return true;
        case CU_MEMPOOL_ATTR_LOCATION_TYPE:
            value = CU_MEM_LOCATION_TYPE_DEVICE;
            return true;
        case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
            value = pool.max_bytes;
            return true;
        case CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED:
            value = 0;
            return true;
        default:
            return false;
    }
}

CUresult set_current(CUdevice device, CUmemoryPool handle) {
    uint64_t wire;
    const Pool* pool = pool_of(handle, wire);
    if (!pool || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
    defaults().current[device] = reinterpret_cast<uint64_t>(handle);
    return CUDA_SUCCESS;
}

}  // namespace

Pool* pool_of(CUmemoryPool handle, uint64_t& wire) {
    wire = reinterpret_cast<uint64_t>(handle);
    Pool* pool = pools().find(wire);
    if (!pool || !pool->is_default) return pool;
    if (pool->device >= Session::get().devices().size()) return nullptr;
    wire = Session::get().number_in_lease(pool->device);
    return pool;
}

CUmemoryPool default_pool(uint8_t device) {
    std::atomic<uint64_t>& handle = defaults().handle[device];
    if (!handle.load(std::memory_order_acquire)) {
        const std::lock_guard lock(defaults().mutex);
        if (!handle.load()) handle = pools().add([&](Pool& pool, uint64_t) { pool = {device, 0, 0, true}; });
    }
    return reinterpret_cast<CUmemoryPool>(handle.load());
}

void forget_pools() {
    for (const uint64_t handle : pools().all()) {
        Pool& pool = *pools().find(handle);
        pool.accessible_from = 0;
        if (!pool.is_default) pools().remove(handle);
    }
    for (std::atomic<uint64_t>& current : defaults().current) current = 0;
}

CUmemoryPool current_pool(uint8_t device) {
    const uint64_t chosen = defaults().current[device].load();
    return chosen ? reinterpret_cast<CUmemoryPool>(chosen) : default_pool(device);
}

}  // namespace client

using namespace client;

extern "C" {

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
    Call call;
    if (CUresult error = call.begin_anew()) return error;
    if (!pool || !poolProps) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = of_pinned_type(poolProps->allocType)) return error;
    if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        static bool told;
        return gk_unsupported_once("a memory pool that other processes may open", &told);
    }
    uint8_t device = 0;
    if (CUresult error = device_at(&poolProps->location, device)) return error;
    const uint64_t handle =
        pools().add([&](Pool& fresh, uint64_t) { fresh = {device, poolProps->maxSize, 0, false}; });
    if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
    const wire::PoolHead message{handle, poolProps->maxSize, Session::get().number_in_lease(device), 0};
    if (CUresult error = call.ask(wire::kOpCreatePool, 0, &message, sizeof message, nullptr, 0)) {
        pools().remove(handle);
        return error;
    }
    *pool = reinterpret_cast<CUmemoryPool>(handle);
    return CUDA_SUCCESS;
}

// What was allocated from it stays until it is freed.
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    const auto handle = reinterpret_cast<uint64_t>(pool);
    const Pool* known = pools().find(handle);
    if (!known || known->is_default || !pools().remove(handle)) return CUDA_ERROR_INVALID_VALUE;
    for (auto& current : defaults().current) {
        uint64_t expected = handle;
        current.compare_exchange_strong(expected, 0);
    }
    const wire::cuMemPoolDestroy_message message{handle};
    return call.post(wire::kOp_cuMemPoolDestroy, 0, &message, sizeof message);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    wire::cuMemPoolSetAttribute_message message{};
    if (!call.pool(pool, message.pool) || !value) return CUDA_ERROR_INVALID_VALUE;
    message.attr = attr;
    std::memcpy(&message.value, value, is_size(attr) ? sizeof(cuuint64_t) : sizeof(int));
    const bool settable =
        attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES && attr <= CU_MEMPOOL_ATTR_USED_MEM_HIGH &&
        attr != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT && attr != CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    const bool mark = attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    if (!settable || (mark && message.value != 0)) return CUDA_ERROR_INVALID_VALUE;
    return call.post(wire::kOp_cuMemPoolSetAttribute, 0, &message, sizeof message);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    wire::cuMemPoolGetAttribute_message message{};
    const Pool* known = pool_of(pool, message.pool);
    if (!known || !value) return CUDA_ERROR_INVALID_VALUE;
    message.attr = attr;
    uint64_t answer = 0;
    if (!known_here(*known, attr, answer)) {
        if (CUresult error = call.ask(wire::kOp_cuMemPoolGetAttribute, 0, &message, sizeof message, &answer,
                                      sizeof answer)) {
            return error;
        }
    }
    std::memcpy(value, &answer, is_size(attr) ? sizeof(cuuint64_t) : sizeof(int));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    wire::cuMemPoolTrimTo_message message{0, minBytesToKeep};
    if (!call.pool(pool, message.pool)) return CUDA_ERROR_INVALID_VALUE;
    return call.post(wire::kOp_cuMemPoolTrimTo, 0, &message, sizeof message);
}

// A pool's own device always has access.
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    wire::AccessHead message{};
    Pool* known = pool_of(pool, message.target);
    if (!known || (!map && count > 0)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        const bool none = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            (!none && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (CUresult error = check_device(map[i].location.id)) return error;
        const auto device = static_cast<uint32_t>(map[i].location.id);
        if (device == known->device && none) return CUDA_ERROR_INVALID_VALUE;
        if (device == known->device) continue;
        message.device = Session::get().number_in_lease(static_cast<uint8_t>(device));
        message.flags = static_cast<uint32_t>(map[i].flags);
        if (CUresult error = call.ask(wire::kOpSetPoolAccess, 0, &message, sizeof message, nullptr, 0)) {
            return error;
        }
        if (none) {
            __atomic_fetch_and(&known->accessible_from, ~(1u << device), __ATOMIC_SEQ_CST);
        } else {
            __atomic_fetch_or(&known->accessible_from, 1u << device, __ATOMIC_SEQ_CST);
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    uint64_t wire;
    const Pool* pool = pool_of(memPool, wire);
    if (!pool || !flags || !location) return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_SUCCESS;
    if (CUresult error = check_device(location->id)) return error;
    const uint32_t others = __atomic_load_n(&pool->accessible_from, __ATOMIC_SEQ_CST);
    if (location->id == pool->device || (others >> location->id & 1)) {
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!pool_out) return CUDA_ERROR_INVALID_VALUE;
    *pool_out = default_pool(static_cast<uint8_t>(dev));
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    *pool = current_pool(static_cast<uint8_t>(dev));
    return CUDA_SUCCESS;
}
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    if (CUresult error = check_device(dev)) return error;
    return set_current(dev, pool);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location, CUmemAllocationType type) {
    uint8_t device = 0;
    if (CUresult error = of_pinned_type(type)) return error;
    if (CUresult error = device_at(location, device)) return error;
    return cuDeviceGetDefaultMemPool(pool_out, device);
}
CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
    uint8_t device = 0;
    if (CUresult error = of_pinned_type(type)) return error;
    if (CUresult error = device_at(location, device)) return error;
    return cuDeviceGetMemPool(pool, device);
}
CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
    uint8_t device = 0;
    if (CUresult error = of_pinned_type(type)) return error;
    if (CUresult error = device_at(location, device)) return error;
    return set_current(device, pool);
}
}
