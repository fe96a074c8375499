// Allocating, freeing, and copies in.
#include <algorithm>

#include "handlers.h"

namespace worker {
namespace {

// What managed memory of `bytes` takes, with its pages to itself, as mappable memory has them. It is device
// memory, which the client moves to and fro. The software GPU's managed memory begins a page and is checked
// to the byte. A real driver's would move to this process, so there it is ordinary memory with room to begin
// a page anywhere. Nothing, and what no device has, stay so.
uint64_t managed_bytes(const Driver& driver, uint64_t bytes) {
    constexpr uint64_t kPage = wire::kManagedPage;
    if (bytes == 0 || bytes > UINT64_MAX - 2 * kPage) return bytes;
    return (bytes + kPage - 1) / kPage * kPage + (driver.software ? 0 : kPage);
}

// Where the software GPU has room there; `place` says that there is none.
bool in_slice_file(const Driver& driver, size_t bytes, CUdeviceptr& address, uint64_t& place) {
    uint64_t in_file = 0;
    if (driver.software && driver.software->allocate_in_file(&in_file, bytes, &place)) {
        address = in_file;
        return true;
    }
    place = wire::kNoPlace;
    return false;
}

// Asks the driver for memory of this kind; the rest is its answer.
CUresult ask_driver(Context& context, const wire::AllocateHead& head, CUdeviceptr& address, size_t& pitch,
                    uint64_t& place) {
    const Driver& driver = context.driver();
    const auto bytes = static_cast<size_t>(head.bytes);
    switch (static_cast<wire::AllocationKind>(head.kind)) {
        case wire::AllocationKind::mappable:
            if (in_slice_file(driver, bytes, address, place)) return CUDA_SUCCESS;
            return invoke(driver.cuMemAlloc_v2, &address, bytes);
        case wire::AllocationKind::device:
            return invoke(driver.cuMemAlloc_v2, &address, bytes);
        case wire::AllocationKind::pitched:
            return invoke(driver.cuMemAllocPitch_v2, &address, &pitch, bytes, static_cast<size_t>(head.rows),
                          static_cast<unsigned>(head.element));
        case wire::AllocationKind::stream_ordered:
            break;  // of a pool
        case wire::AllocationKind::managed_here:
            if (in_slice_file(driver, bytes, address, place)) return CUDA_SUCCESS;
            [[fallthrough]];
        case wire::AllocationKind::managed:
            if (driver.software) {
                return invoke(driver.cuMemAllocManaged, &address, bytes,
                              static_cast<unsigned>(CU_MEM_ATTACH_GLOBAL));
            }
            return invoke(driver.cuMemAlloc_v2, &address,
                          static_cast<size_t>(managed_bytes(driver, head.bytes)));
    }
    return kMalformed;
}

// What the allocation will take: for pitched memory a guess that the driver's pitch corrects.
uint64_t expected_bytes(const Driver& driver, const wire::AllocateHead& head) {
    constexpr uint64_t kPitchUnit = 512;
    const auto kind = static_cast<wire::AllocationKind>(head.kind);
    const bool whole_pages = kind == wire::AllocationKind::mappable && driver.software;
    const bool is_managed =
        kind == wire::AllocationKind::managed || kind == wire::AllocationKind::managed_here;
    if (is_managed || whole_pages) return managed_bytes(driver, head.bytes);
    if (kind != wire::AllocationKind::pitched) return head.bytes;
    if (head.bytes > UINT64_MAX - kPitchUnit) return UINT64_MAX;
    return times((head.bytes + kPitchUnit - 1) / kPitchUnit * kPitchUnit, head.rows);
}

// Once the driver has said yes the bytes are free; until then they stay charged.
CUresult free(Context& context, const Allocation& allocation, CUresult result) {
    if (result == CUDA_SUCCESS) {
        context.worker().freed(allocation);
    } else {
        context.worker().memory.add(allocation);
    }
    return result;
}

// What `head` asks for, with `charge` taken from the slice.
CUresult allocate(Context& context, const wire::AllocateHead& head, const std::shared_ptr<Pool>& pool,
                  uint64_t charge, CUdeviceptr& address, size_t& pitch, uint64_t& place) {
    if (!pool) return ask_driver(context, head, address, pitch, place);
    CUstream stream;
    if (!context.stream(head.stream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    return pool->allocate(head.bytes, charge, stream, address);
}

}  // namespace

CUresult handle_allocate(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    wire::AllocateHead head;
    if (!payload.take(head) || !payload.finished()) return kMalformed;
    MemoryLedger& memory = context.worker().memory;
    const uint64_t bytes = expected_bytes(context.driver(), head);
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t charge = MemoryLedger::charge_of(bytes);
    uint8_t device = context.device();
    std::shared_ptr<Pool> pool;
    if (head.kind == static_cast<uint32_t>(wire::AllocationKind::stream_ordered)) {
        if (!context.pool(head.pool, pool)) return CUDA_ERROR_NOT_SUPPORTED;
        device = pool->device;
    }
    if (!context.worker().room.take(context.session(), device, charge)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUdeviceptr address = 0;
    size_t pitch = 0;
    uint64_t place = 0;
    const CUresult result = allocate(context, head, pool, charge, address, pitch, place);
    if (result != CUDA_SUCCESS) {
        memory.give_back(device, charge);
        return result;
    }
    const uint64_t whole = context.driver().software ? head.bytes : bytes;
    const uint64_t usable = pitch ? std::min(times(pitch, head.rows), charge) : whole;
    memory.add({address, usable, charge, &context.session(), device, false, std::move(pool)});
    reply.put(wire::Allocated{address, pitch, place});
    return CUDA_SUCCESS;
}

CUresult run_cuMemFree_v2(Context& context, uint8_t, const wire::cuMemFree_v2_message& message,
                          wire::Writer&) {
    const auto allocation = context.worker().memory.take(message.dptr, &context.session());
    if (!allocation) return CUDA_ERROR_INVALID_VALUE;
    // The driver's call waits for the whole context, whose other sessions may run kernels that never end.
    OwnWork& own_work = context.session().own_work;
    const bool alone = context.worker().status.sessions.load() == 1;
    CUresult error = CUDA_SUCCESS;
    for (size_t i = 0; i < context.worker().devices.size() && error == CUDA_SUCCESS; ++i) {
        const bool waits =
            allocation->host || (!alone && i == allocation->device);  // all kernels reach a host's
        if (waits) error = own_work.wait(static_cast<uint8_t>(i));
    }
    if (error != CUDA_SUCCESS) return free(context, *allocation, error);
    if (allocation->host) return CUDA_SUCCESS;  // its end takes the mapping away
    return free(context, *allocation,
                alone ? invoke(context.driver().cuMemFree_v2, static_cast<CUdeviceptr>(message.dptr))
                      : own_work.free(allocation->device, message.dptr));
}

// The bytes are the slice's until the stream has come here.
CUresult run_cuMemFreeAsync(Context& context, uint8_t, const wire::cuMemFreeAsync_message& message,
                            wire::Writer&) {
    CUstream stream;
    if (!context.stream(message.hStream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    const auto allocation = context.worker().memory.take(message.dptr, &context.session());
    if (!allocation) return CUDA_ERROR_INVALID_VALUE;
    const auto address = static_cast<CUdeviceptr>(message.dptr);
    Worker& worker = context.worker();
    if (CUresult error = invoke(context.driver().cuMemFreeAsync, address, stream)) {
        worker.memory.add(*allocation);
        return error;
    }
    if (allocation->pool) allocation->pool->freed(allocation->charged);
    worker.ending_frees.add(context.device(), stream, *allocation);
    worker.room.note();
    return CUDA_SUCCESS;
}

CUresult handle_memory_info(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    if (!payload.finished()) return kMalformed;
    const MemoryLedger& memory = context.worker().memory;
    context.worker().room.look();
    const uint64_t limit = memory.limit(context.device());
    uint64_t left = memory.left(context.device());
    size_t free_on_device = 0, total = 0;
    if (invoke(context.driver().cuMemGetInfo_v2, &free_on_device, &total) == CUDA_SUCCESS) {
        left = std::min<uint64_t>(left, free_on_device);
    }
    reply.put(left);
    reply.put(limit);
    return CUDA_SUCCESS;
}

CUresult buffer_is_read(const Context& context, CUstream stream, CUresult result) {
    const auto& attributes = context.worker().devices[context.device()].snapshot.attributes;
    const bool reads_later = attributes[CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS] > 0 ||
                             attributes[CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES] > 0;
    if (result != CUDA_SUCCESS || !reads_later) return result;
    return invoke(context.driver().cuStreamSynchronize, stream);
}

// The driver has taken pageable memory when the call returns, so the lane's buffer may be used again.
CUresult handle_copy_in(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer&) {
    wire::CopyHead head;
    std::span<const std::byte> bytes;
    if (!payload.take(head) || !payload.take_bytes(head.bytes, bytes) || !payload.finished())
        return kMalformed;
    CUstream stream;
    if (!context.stream(head.stream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (!context.accessible(head.address, head.bytes)) return CUDA_ERROR_INVALID_VALUE;
    const Driver& driver = context.driver();
    const void* from = bytes.data();
    if (frame_flags & wire::kWholeCopy) {
        constexpr uint64_t kPerThread = 2;
        return invoke(head.stream == kPerThread ? driver.cuMemcpyHtoD_v2_ptds : driver.cuMemcpyHtoD_v2,
                      static_cast<CUdeviceptr>(head.address), from, bytes.size());
    }
    const CUresult result = invoke(driver.cuMemcpyHtoDAsync_v2, static_cast<CUdeviceptr>(head.address), from,
                                   bytes.size(), stream);
    return buffer_is_read(context, stream, result);
}

}  // namespace worker
