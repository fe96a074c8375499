// Memory pools: those that a program makes, and the session's own default ones.
#include "pool.h"

#include <algorithm>

#include "handlers.h"

namespace worker {

Pool::~Pool() {
    if (own_) invoke(worker_.driver.cuMemPoolDestroy, handle);
    worker_.memory.give_back(device, charged_);
}

// With mutex_ held.
void Pool::settle(uint64_t reserved) {
    const uint64_t charge = std::max(allocated_, reserved);
    if (charge > charged_) worker_.memory.take_beyond(device, charge - charged_);
    if (charge < charged_) worker_.memory.give_back(device, charged_ - charge);
    charged_ = charge;
}

// With mutex_ held. What cannot be asked stays as it was.
void Pool::look() {
    const std::lock_guard lock(mutex_);
    cuuint64_t reserved = 0;
    void* const value = &reserved;
    if (invoke(worker_.driver.cuMemPoolGetAttribute, handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, value) ==
        CUDA_SUCCESS) {
        settle(reserved);
    }
}

void Pool::trim() {
    invoke(worker_.driver.cuMemPoolTrimTo, handle, size_t{0});
    look();
}

uint64_t Pool::idle() {
    const std::lock_guard lock(mutex_);
    return charged_ - allocated_;
}

CUresult Pool::allocate(uint64_t bytes, uint64_t charge, CUstream stream, CUdeviceptr& address) {
    const Driver& driver = worker_.driver;
    const std::lock_guard lock(mutex_);
    const auto asked = static_cast<size_t>(bytes);
    if (CUresult error = invoke(driver.cuMemAllocFromPoolAsync, &address, asked, handle, stream))
        return error;
    cuuint64_t reserved = 0;
    void* const value = &reserved;
    const CUresult known =
        invoke(driver.cuMemPoolGetAttribute, handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, value);
    const uint64_t before = charged_;
    charged_ += charge;
    allocated_ += charge;
    if (known != CUDA_SUCCESS) return CUDA_SUCCESS;
    settle(reserved);
    // Rounded up by the driver, beyond what is left.
    if (charged_ <= before + charge || worker_.memory.used(device) <= worker_.memory.limit(device))
        return CUDA_SUCCESS;
    allocated_ -= charge;
    invoke(driver.cuMemFreeAsync, address, stream);
    // The caller gives it back; what stays reserved is this pool's.
    worker_.memory.take_beyond(device, charge);
    settle(reserved);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void Pool::freed(uint64_t charge) {
    const std::lock_guard lock(mutex_);
    allocated_ -= charge;
}

std::shared_ptr<Pool> Pools::create(Worker& worker, uint8_t device, uint64_t max_bytes, CUresult& error) {
    drop_unused();
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = worker.devices[device].handle;
    properties.maxSize = max_bytes;
    const CUmemPoolProps* asked = &properties;
    CUmemoryPool handle = nullptr;
    const std::lock_guard lock(mutex_);
    error = pools_.size() < kMost ? invoke(worker.driver.cuMemPoolCreate, &handle, asked)
                                  : CUDA_ERROR_OUT_OF_MEMORY;
    if (error != CUDA_SUCCESS) return nullptr;
    return pools_.emplace_back(std::make_shared<Pool>(worker, device, handle, true));
}

std::shared_ptr<Pool> Pools::of_device(Worker& worker, uint8_t device) {
    const CUmemoryPool handle = worker.devices[device].pool;
    if (!handle) return nullptr;
    const std::lock_guard lock(mutex_);
    for (const auto& pool : pools_) {
        if (pool->handle == handle) return pool;
    }
    return pools_.emplace_back(std::make_shared<Pool>(worker, device, handle, false));
}

std::vector<std::shared_ptr<Pool>> Pools::all() {
    const std::lock_guard lock(mutex_);
    return pools_;
}

void Pools::drop_unused() {
    const std::lock_guard lock(mutex_);
    std::erase_if(pools_, [](const std::shared_ptr<Pool>& pool) {
        if (pool.use_count() > 1) return false;
        pool->trim();
        return pool->idle() == 0;
    });
}

std::shared_ptr<Pool> Session::default_pool(uint8_t device) {
    // Not the session's mutex: the main thread takes that, and must not wait for the driver.
    const std::lock_guard lock(pools_mutex_);
    auto& pool = default_pools_[device];
    CUresult error;
    if (!pool) pool = worker_.pools.create(worker_, device, 0, error);
    if (!pool) pool = worker_.pools.of_device(worker_, device);
    return pool;
}

CUresult handle_create_pool(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::PoolHead head;
    if (!payload.take(head) || !payload.finished()) return kMalformed;
    Session& session = context.session();
    if (head.device >= context.worker().devices.size() ||
        !session.pools.may_add(head.pool, wire::HandleKind::pool)) {
        return kMalformed;
    }
    if (session.pools.size() >= wire::kMaxPools) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult error;
    const auto device = static_cast<uint8_t>(head.device);
    auto pool = context.worker().pools.create(context.worker(), device, head.max_bytes, error);
    if (!pool) return error;
    return session.pools.add(head.pool, std::move(pool)) ? CUDA_SUCCESS : kMalformed;
}

// What was allocated from it stays until it is freed, and the driver's pool with it.
CUresult run_cuMemPoolDestroy(Context& context, uint8_t, const wire::cuMemPoolDestroy_message& message,
                              wire::Writer&) {
    std::shared_ptr<Pool> pool;
    if (!context.session().pools.take(message.pool, pool)) return CUDA_ERROR_INVALID_HANDLE;
    pool.reset();
    context.worker().pools.drop_unused();
    return CUDA_SUCCESS;
}

CUresult run_cuMemPoolTrimTo(Context& context, uint8_t, const wire::cuMemPoolTrimTo_message& message,
                             wire::Writer&) {
    std::shared_ptr<Pool> pool;
    if (!context.pool(message.pool, pool)) return CUDA_ERROR_INVALID_HANDLE;
    const auto keep = static_cast<size_t>(message.minBytesToKeep);
    const CUresult result = invoke(context.driver().cuMemPoolTrimTo, pool->handle, keep);
    pool->look();
    return result;
}

// An attribute that is not named here never reaches a driver: it may be one whose value is a pointer, or more
// than eight bytes.
CUresult run_cuMemPoolSetAttribute(Context& context, uint8_t,
                                   const wire::cuMemPoolSetAttribute_message& message, wire::Writer&) {
    std::shared_ptr<Pool> pool;
    if (!context.pool(message.pool, pool)) return CUDA_ERROR_INVALID_HANDLE;
    auto large = static_cast<cuuint64_t>(message.value);
    auto small = static_cast<int>(message.value);
    void* value = &large;
    const auto attribute = static_cast<CUmemPool_attribute>(message.attr);
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
            value = &small;
            break;
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
    return invoke(context.driver().cuMemPoolSetAttribute, pool->handle, attribute, value);
}

CUresult run_cuMemPoolGetAttribute(Context& context, uint8_t,
                                   const wire::cuMemPoolGetAttribute_message& message, wire::Writer& reply) {
    std::shared_ptr<Pool> pool;
    if (!context.pool(message.pool, pool)) return CUDA_ERROR_INVALID_HANDLE;
    // All of these have at most eight bytes, and the fewer come first.
    const auto attribute = static_cast<CUmemPool_attribute>(message.attr);
    if (attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
        attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    cuuint64_t answer = 0;
    void* const value = &answer;
    const CUresult result = invoke(context.driver().cuMemPoolGetAttribute, pool->handle, attribute, value);
    reply.put(static_cast<uint64_t>(answer));
    return result;
}

CUresult handle_set_pool_access(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::AccessHead head;
    if (!payload.take(head) || !payload.finished()) return kMalformed;
    if (head.device >= context.worker().devices.size()) return kMalformed;
    std::shared_ptr<Pool> pool;
    if (!context.pool(head.target, pool)) return CUDA_ERROR_INVALID_VALUE;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = context.worker().devices[head.device].handle;
    access.flags = static_cast<CUmemAccess_flags>(head.flags);
    const CUmemAccessDesc* asked = &access;
    return invoke(context.driver().cuMemPoolSetAccess, pool->handle, asked, size_t{1});
}

}  // namespace worker
