// Allocating, freeing, and copies in.
#include <algorithm>

#include "handlers.h"

namespace worker {
namespace {

// Asks the driver for memory of this kind; `address` and `pitch` are its answer.
CUresult ask_driver(Context& context, const wire::AllocateHead& head, CUdeviceptr& address, size_t& pitch) {
    const Driver& driver = context.driver();
    switch (static_cast<wire::AllocationKind>(head.kind)) {
        case wire::AllocationKind::device:
            return invoke(driver.cuMemAlloc_v2, &address, static_cast<size_t>(head.bytes));
        case wire::AllocationKind::pitched:
            return invoke(driver.cuMemAllocPitch_v2, &address, &pitch, static_cast<size_t>(head.bytes),
                          static_cast<size_t>(head.rows), static_cast<unsigned>(head.element));
        case wire::AllocationKind::stream_ordered: {
            CUstream stream;
            if (!context.stream(head.stream, stream)) return CUDA_ERROR_INVALID_HANDLE;
            return invoke(driver.cuMemAllocAsync, &address, static_cast<size_t>(head.bytes), stream);
        }
    }
    return kMalformed;
}

// What the allocation will take: for pitched memory a guess that the driver's pitch corrects.
uint64_t expected_bytes(const wire::AllocateHead& head) {
    constexpr uint64_t kPitchUnit = 512;
    if (head.kind != static_cast<uint32_t>(wire::AllocationKind::pitched)) return head.bytes;
    if (head.bytes > UINT64_MAX - kPitchUnit) return UINT64_MAX;
    return times((head.bytes + kPitchUnit - 1) / kPitchUnit * kPitchUnit, head.rows);
}

CUresult free(Context& context, const Allocation& allocation, CUresult result) {
    // Once the driver has said yes the bytes are free; until then they stay charged.
    if (result == CUDA_SUCCESS) {
        context.worker().memory.give_back(allocation.device, allocation.charged);
    } else {
        context.worker().memory.add(allocation);
    }
    return result;
}

}  // namespace

CUresult handle_allocate(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    wire::AllocateHead head;
    if (!payload.take(head) || !payload.finished()) return kMalformed;
    MemoryLedger& memory = context.worker().memory;
    const uint64_t bytes = expected_bytes(head);
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t charge = MemoryLedger::charge_of(bytes);
    if (!memory.reserve(context.device(), charge)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUdeviceptr address = 0;
    size_t pitch = 0;
    const CUresult result = ask_driver(context, head, address, pitch);
    if (result != CUDA_SUCCESS) {
        memory.give_back(context.device(), charge);
        return result;
    }
    const uint64_t usable = pitch ? std::min(times(pitch, head.rows), charge) : head.bytes;
    memory.add({address, usable, charge, &context.session(), context.device()});
    reply.put(static_cast<uint64_t>(address));
    reply.put(static_cast<uint64_t>(pitch));
    return CUDA_SUCCESS;
}

CUresult run_cuMemFree_v2(Context& context, uint8_t, const wire::cuMemFree_v2_message& message,
                          wire::Writer&) {
    const auto allocation = context.worker().memory.take(message.dptr, &context.session());
    if (!allocation) return CUDA_ERROR_INVALID_VALUE;
    return free(context, *allocation,
                invoke(context.driver().cuMemFree_v2, static_cast<CUdeviceptr>(message.dptr)));
}

// The bytes count as free when the free is queued, as they do in the driver's pool: a later allocation on the
// stream may have them.
CUresult run_cuMemFreeAsync(Context& context, uint8_t, const wire::cuMemFreeAsync_message& message,
                            wire::Writer&) {
    CUstream stream;
    if (!context.stream(message.hStream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    const auto allocation = context.worker().memory.take(message.dptr, &context.session());
    if (!allocation) return CUDA_ERROR_INVALID_VALUE;
    const auto address = static_cast<CUdeviceptr>(message.dptr);
    return free(context, *allocation, invoke(context.driver().cuMemFreeAsync, address, stream));
}

CUresult handle_memory_info(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    if (!payload.finished()) return kMalformed;
    const MemoryLedger& memory = context.worker().memory;
    const uint64_t limit = memory.limit(context.device());
    uint64_t left = limit - memory.used(context.device());
    size_t free_on_device = 0, total = 0;
    if (invoke(context.driver().cuMemGetInfo_v2, &free_on_device, &total) == CUDA_SUCCESS) {
        left = std::min<uint64_t>(left, free_on_device);
    }
    reply.put(left);
    reply.put(limit);
    return CUDA_SUCCESS;
}

CUresult handle_reset_device(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    if (!payload.finished()) return kMalformed;
    context.session().reset(context.device());
    return CUDA_SUCCESS;
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
    if (context.captures(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    const Driver& driver = context.driver();
    const void* from = bytes.data();
    if (frame_flags & wire::kWholeCopy) {
        constexpr uint64_t kPerThread = 2;
        return invoke(head.stream == kPerThread ? driver.cuMemcpyHtoD_v2_ptds : driver.cuMemcpyHtoD_v2,
                      static_cast<CUdeviceptr>(head.address), from, bytes.size());
    }
    return invoke(driver.cuMemcpyHtoDAsync_v2, static_cast<CUdeviceptr>(head.address), from, bytes.size(),
                  stream);
}

}  // namespace worker
