// Memory pools: those that a program makes, and the session's own default ones.
#include "handlers.h"

namespace worker {
namespace {

CUresult create(const Worker& worker, uint8_t device, uint64_t max_bytes, CUmemoryPool& pool) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = worker.devices[device].handle;
    properties.maxSize = max_bytes;
    const CUmemPoolProps* asked = &properties;
    return invoke(worker.driver.cuMemPoolCreate, &pool, asked);
}

}  // namespace

CUmemoryPool Session::default_pool(uint8_t device) {
    // Not the session's mutex: the main thread takes that, and must not wait for the driver.
    const std::lock_guard lock(pools_mutex_);
    auto& pool = default_pools_[device];
    if (pool) return pool;
    if (create(worker_, device, 0, pool) == CUDA_SUCCESS) return pool;
    default_pools_.erase(device);
    return worker_.devices[device].pool;
}

CUresult handle_create_pool(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::PoolHead head;
    if (!payload.take(head) || !payload.finished()) return kMalformed;
    if (head.device >= context.worker().devices.size() || !context.may_add_pool(head.pool)) return kMalformed;
    if (context.session().pools.size() >= wire::kMaxPools) return CUDA_ERROR_OUT_OF_MEMORY;
    CUmemoryPool pool = nullptr;
    const auto device = static_cast<uint8_t>(head.device);
    if (CUresult error = create(context.worker(), device, head.max_bytes, pool)) return error;
    return context.session().pools.add(head.pool, {pool, device}) ? CUDA_SUCCESS : kMalformed;
}

CUresult handle_set_pool_access(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::AccessHead head;
    if (!payload.take(head) || !payload.finished()) return kMalformed;
    if (head.device >= context.worker().devices.size()) return kMalformed;
    CUmemoryPool pool;
    if (!context.pool(head.target, pool)) return CUDA_ERROR_INVALID_VALUE;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = context.worker().devices[head.device].handle;
    access.flags = static_cast<CUmemAccess_flags>(head.flags);
    const CUmemAccessDesc* asked = &access;
    return invoke(context.driver().cuMemPoolSetAccess, pool, asked, size_t{1});
}

}  // namespace worker
