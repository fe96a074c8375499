#include "virtual_memory.h"

#include "allowlists.h"
#include "handlers.h"

namespace worker {

Physical::~Physical() {
    // What the driver does not let go of stays the slice's.
    if (invoke(worker.driver.cuMemRelease, handle) == CUDA_SUCCESS) worker.memory.give_back(device, charged);
}

CUresult VirtualMemory::reserve(Worker& worker, uint64_t bytes, uint64_t align, uint64_t wanted,
                                uint64_t& base) {
    const std::lock_guard lock(mutex_);
    if (reservations_.size() >= kMaxReservations) return CUDA_ERROR_OUT_OF_MEMORY;
    CUdeviceptr address = 0;
    const CUresult result = invoke(worker.driver.cuMemAddressReserve, &address, static_cast<size_t>(bytes),
                                   static_cast<size_t>(align), static_cast<CUdeviceptr>(wanted), 0ull);
    if (result != CUDA_SUCCESS) return result;
    base = address;
    reservations_.emplace(base, bytes);
    return CUDA_SUCCESS;
}

CUresult VirtualMemory::free(Worker& worker, uint64_t base, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = reservations_.find(base);
    if (found == reservations_.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
    const auto mapped = mappings_.lower_bound(base);
    if (mapped != mappings_.end() && mapped->first - base < bytes) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result =
        invoke(worker.driver.cuMemAddressFree, static_cast<CUdeviceptr>(base), static_cast<size_t>(bytes));
    if (result == CUDA_SUCCESS) reservations_.erase(found);
    return result;
}

CUresult VirtualMemory::map(Worker& worker, uint64_t base, uint64_t bytes, uint64_t offset,
                            const std::shared_ptr<Physical>& physical) {
    const std::lock_guard lock(mutex_);
    auto after = reservations_.upper_bound(base);
    if (after == reservations_.begin()) return CUDA_ERROR_INVALID_VALUE;
    const auto& [start, room] = *std::prev(after);
    if (base - start >= room || bytes > room - (base - start)) return CUDA_ERROR_INVALID_VALUE;
    if (offset > physical->bytes || bytes > physical->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
    const auto next = mappings_.lower_bound(base);
    if (next != mappings_.end() && next->first - base < bytes) return CUDA_ERROR_INVALID_VALUE;
    if (next != mappings_.begin() && base - std::prev(next)->first < std::prev(next)->second.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (worker.mappings.fetch_add(1) >= kMaxMappings) {
        worker.mappings.fetch_sub(1);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const CUresult result =
        invoke(worker.driver.cuMemMap, static_cast<CUdeviceptr>(base), static_cast<size_t>(bytes),
               static_cast<size_t>(offset), physical->handle, 0ull);
    if (result == CUDA_SUCCESS) {
        mappings_.emplace(base, Mapping{bytes, physical, false});
    } else {
        worker.mappings.fetch_sub(1);
    }
    return result;
}

bool VirtualMemory::made_of(uint64_t base, uint64_t bytes, Mappings::iterator& first,
                            Mappings::iterator& end) {
    if (bytes == 0 || bytes > UINT64_MAX - base) return false;
    first = end = mappings_.find(base);
    uint64_t reached = base;
    while (end != mappings_.end() && end->first == reached && reached < base + bytes) {
        reached += end->second.bytes;
        ++end;
    }
    return reached == base + bytes;
}

CUresult VirtualMemory::unmap(Worker& worker, uint64_t base, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    Mappings::iterator first, end;
    if (!made_of(base, bytes, first, end)) return CUDA_ERROR_INVALID_VALUE;
    // No copy of another session may begin while it goes.
    for (auto it = first; it != end; ++it) worker.memory.forget_global(it->first, owner_);
    const CUresult result =
        invoke(worker.driver.cuMemUnmap, static_cast<CUdeviceptr>(base), static_cast<size_t>(bytes));
    if (result != CUDA_SUCCESS) return result;
    worker.mappings.fetch_sub(static_cast<size_t>(std::distance(first, end)));
    mappings_.erase(first, end);
    return CUDA_SUCCESS;
}

CUresult VirtualMemory::set_access(Worker& worker, const wire::AccessHead& head,
                                   const SoftwareSession& software) {
    const uint64_t base = head.target, bytes = head.bytes;
    const auto device = static_cast<uint8_t>(head.device);
    const auto flags = static_cast<CUmemAccess_flags>(head.flags);
    const std::lock_guard lock(mutex_);
    Mappings::iterator first, end;
    if (!made_of(base, bytes, first, end)) return CUDA_ERROR_INVALID_VALUE;
    if (head.in_use > 0) software.limit_mapping(base, head.in_use);
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = worker.devices[device].handle;
    access.flags = flags;
    const CUmemAccessDesc* asked = &access;
    const bool take = flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (auto it = first; it != end && take; ++it) {
        if (it->second.physical->device == device) worker.memory.forget_global(it->first, owner_);
    }
    const CUresult result = invoke(worker.driver.cuMemSetAccess, static_cast<CUdeviceptr>(base),
                                   static_cast<size_t>(bytes), asked, size_t{1});
    if (result != CUDA_SUCCESS || take) return result;
    for (auto it = first; it != end; ++it) {
        if (it->second.physical->device != device) continue;
        worker.memory.add({it->first, it->second.bytes, 0, owner_, device, true});
    }
    return CUDA_SUCCESS;
}

void VirtualMemory::free_all(Worker& worker) {
    const std::lock_guard lock(mutex_);
    for (const auto& [base, mapping] : mappings_) {
        worker.memory.forget_global(base, owner_);
        invoke(worker.driver.cuMemUnmap, static_cast<CUdeviceptr>(base), static_cast<size_t>(mapping.bytes));
    }
    worker.mappings.fetch_sub(mappings_.size());
    mappings_.clear();
    for (const auto& [base, bytes] : reservations_) {
        invoke(worker.driver.cuMemAddressFree, static_cast<CUdeviceptr>(base), static_cast<size_t>(bytes));
    }
    reservations_.clear();
}

CUresult run_cuMemAddressReserve(Context& context, uint8_t, const wire::cuMemAddressReserve_message& message,
                                 wire::Writer& reply) {
    if (message.flags != 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t base = 0;
    const CUresult result = context.session().addresses.reserve(context.worker(), message.size,
                                                                message.alignment, message.addr, base);
    reply.put(base);
    return result;
}

CUresult run_cuMemAddressFree(Context& context, uint8_t, const wire::cuMemAddressFree_message& message,
                              wire::Writer&) {
    return context.session().addresses.free(context.worker(), message.ptr, message.size);
}

CUresult run_cuMemMap(Context& context, uint8_t, const wire::cuMemMap_message& message, wire::Writer&) {
    std::shared_ptr<Physical> physical;
    if (message.flags != 0 || !context.session().physicals.find(message.handle, physical))
        return CUDA_ERROR_INVALID_VALUE;
    return context.session().addresses.map(context.worker(), message.ptr, message.size, message.offset,
                                           physical);
}

CUresult run_cuMemUnmap(Context& context, uint8_t, const wire::cuMemUnmap_message& message, wire::Writer&) {
    return context.session().addresses.unmap(context.worker(), message.ptr, message.size);
}

CUresult run_cuMemRelease(Context& context, uint8_t, const wire::cuMemRelease_message& message,
                          wire::Writer&) {
    std::shared_ptr<Physical> physical;
    return context.session().physicals.take(message.handle, physical) ? CUDA_SUCCESS
                                                                      : CUDA_ERROR_INVALID_VALUE;
}

CUresult handle_create_memory(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::CreateMemoryHead head;
    if (!payload.take(head) || !payload.finished()) return kMalformed;
    Session& session = context.session();
    if (!session.physicals.may_add(head.memory, wire::HandleKind::physical)) return kMalformed;
    if (head.bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    Worker& worker = context.worker();
    const uint64_t charge = MemoryLedger::charge_of(head.bytes);
    if (!worker.room.take(session, context.device(), charge)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = worker.devices[context.device()].handle;
    const CUmemAllocationProp* asked = &properties;
    CUmemGenericAllocationHandle handle = 0;
    const CUresult result =
        invoke(context.driver().cuMemCreate, &handle, static_cast<size_t>(head.bytes), asked, 0ull);
    if (result != CUDA_SUCCESS) {
        worker.memory.give_back(context.device(), charge);
        return result;
    }
    auto physical = std::make_shared<Physical>(worker, context.device(), head.bytes, charge, handle);
    return session.physicals.add(head.memory, std::move(physical)) ? CUDA_SUCCESS : kMalformed;
}

CUresult handle_set_access(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::AccessHead head;
    if (!payload.take(head) || !payload.finished()) return kMalformed;
    if (head.device >= context.worker().devices.size()) return kMalformed;
    if (!access_allowed(head.flags)) return CUDA_ERROR_INVALID_VALUE;
    Session& session = context.session();
    return session.addresses.set_access(context.worker(), head, session.software);
}

}  // namespace worker
