// Allocating and freeing: device, pitched, pooled, pinned and managed memory.
#include <sys/mman.h>

#include <vector>

#include "call.h"
#include "calls_wire.h"
#include "capture.h"
#include "context.h"
#include "copies_back.h"
#include "front/platform.h"
#include "graph_replay.h"
#include "managed_advice.h"
#include "mapped.h"
#include "memory_map.h"
#include "pool.h"
#include "shared_memory.h"
#include "slice_file.h"
#include "stream_event.h"

namespace client {
namespace {

constexpr size_t kPage = 4096;

using wire::Allocated;

CUresult ask_for(Call& call, const wire::AllocateHead& head, Allocated& allocated) {
    return call.ask(wire::kOpAllocate, 0, &head, sizeof head, &allocated, sizeof allocated);
}

void give_back(Call& call, const wire::AllocateHead& head, uint64_t address) {
    if (head.kind == static_cast<uint32_t>(wire::AllocationKind::stream_ordered)) {
        const wire::cuMemFreeAsync_message message{address, head.stream};
        call.post(wire::kOp_cuMemFreeAsync, 0, &message, sizeof message);
    } else {
        const wire::cuMemFree_v2_message message{address};
        call.post(wire::kOp_cuMemFree_v2, 0, &message, sizeof message);
    }
}

// What a program had in an earlier life it may still free: an address that it was given then is not given out
// again, as long as the slice has another place. `fits` says no to places that cannot be used at all.
template <typename Fits>
CUresult allocate_elsewhere(Call& call, const wire::AllocateHead& head, Allocated& allocated, Fits fits) {
    constexpr size_t kTries = 8;
    std::vector<Allocated> avoided;
    CUresult result = ask_for(call, head, allocated);
    auto bytes = [&](const Allocated& at) { return head.rows ? at.pitch * head.rows : head.bytes; };
    while (result == CUDA_SUCCESS && avoided.size() < kTries &&
           (MemoryMap::get().was_given_out(allocated.address, bytes(allocated)) || !fits(allocated))) {
        avoided.push_back(allocated);
        result = ask_for(call, head, allocated);
    }
    // Rather that one than none.
    if (result == CUDA_ERROR_OUT_OF_MEMORY && !avoided.empty()) {
        allocated = avoided.back();
        avoided.pop_back();
        result = CUDA_SUCCESS;
    }
    for (const Allocated& other : avoided) give_back(call, head, other.address);
    return result;
}

// `memory` says what it is; it is the device's of the pool, or of the call.
Allocated allocate(Call& call, const wire::AllocateHead& head, Memory memory) {
    Allocated allocated{};
    cuda::check(allocate_elsewhere(call, head, allocated, [](const Allocated&) { return true; }));
    memory.base = memory.device_address = allocated.address;
    memory.bytes = head.rows ? allocated.pitch * head.rows : head.bytes;
    // Mapped first: a context that another thread ends takes away what it finds in the memory map.
    if (head.kind == static_cast<uint32_t>(wire::AllocationKind::mappable) &&
        allocated.place != wire::kNoPlace)
        SliceFile::get().map(allocated.address, head.bytes, allocated.place, SliceFile::AtEnd::empty);
    MemoryMap::get().add(memory);
    return allocated;
}

wire::AllocateHead head_of(wire::AllocationKind kind, uint64_t bytes) {
    wire::AllocateHead head{};
    head.kind = static_cast<uint32_t>(kind);
    head.bytes = bytes;
    return head;
}

// Maps host memory at the address that the device has given: a managed pointer is the same on both sides.
bool map_at(uint64_t address, size_t bytes) {
    const uint64_t first = address / kPage * kPage;
    const uint64_t end = (address + bytes + kPage - 1) / kPage * kPage;
    void* wanted = reinterpret_cast<void*>(first);
    void* mapped = mmap(wanted, end - first, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped == MAP_FAILED) return false;
    if (mapped == wanted) return true;
    munmap(mapped, end - first);  // a kernel that does not know MAP_FIXED_NOREPLACE
    return false;
}

void unmap(uint64_t address, size_t bytes) {
    const uint64_t first = address / kPage * kPage;
    munmap(reinterpret_cast<void*>(first), (address + bytes + kPage - 1) / kPage * kPage - first);
}

Memory host_memory(CUdevice device, void* memory, uint64_t bytes, unsigned flags) {
    Memory pinned;
    pinned.base = reinterpret_cast<uint64_t>(memory);
    pinned.bytes = bytes;
    pinned.kind = Memory::Kind::pinned;
    pinned.device = static_cast<uint8_t>(device);
    pinned.flags = flags;
    return pinned;
}

}  // namespace

}  // namespace client

namespace front::platform {

using namespace client;
using Kind = wire::AllocationKind;

MemoryInfo memory_info() {
    Call call;
    check(call.begin());
    uint64_t values[2];
    check(call.ask(wire::kOpMemoryInfo, 0, nullptr, 0, values, sizeof values));
    return {values[0], values[1]};
}

CUdeviceptr allocate(size_t bytes) {
    Call call;
    check(call.begin());
    const auto head = head_of(SliceFile::get().wants(bytes) ? Kind::mappable : Kind::device, bytes);
    return client::allocate(call, head, {.device = call.device()}).address;
}

Pitched allocate_pitched(size_t width, size_t rows, unsigned element) {
    Call call;
    check(call.begin());
    wire::AllocateHead head = head_of(Kind::pitched, width);
    head.rows = rows;
    head.element = element;
    const Allocated allocated = client::allocate(call, head, {.device = call.device()});
    return {allocated.address, allocated.pitch};
}

CUdeviceptr allocate_managed(size_t bytes, bool attached) {
    Call call;
    check(call.begin());
    const auto head = head_of(SliceFile::get().is_open() ? Kind::managed_here : Kind::managed, bytes);
    Allocated allocated{};
    bool mapped = false, here = false;
    auto first_page = [](const Allocated& at) { return (at.address + kPage - 1) / kPage * kPage; };
    auto map = [&](const Allocated& at) {
        here = head.kind == static_cast<uint32_t>(Kind::managed_here) && at.place != wire::kNoPlace &&
               SliceFile::get().map(at.address, bytes, at.place, SliceFile::AtEnd::kept);
        return mapped = here || map_at(first_page(at), bytes);
    };
    check(allocate_elsewhere(call, head, allocated, map));
    const uint64_t base = first_page(allocated);
    if (!mapped && !map(allocated)) {
        give_back(call, head, allocated.address);
        refuse(CUDA_ERROR_NOT_SUPPORTED);
    }
    client::Memory memory;
    memory.base = base;
    memory.bytes = bytes;
    memory.kind = client::Memory::Kind::managed;
    memory.device = call.device();
    memory.device_address = allocated.address;
    memory.in_place = here;
    MemoryMap::get().add(memory);
    if (!here) {
        const bool beside = attached || SliceFile::get().is_open();
        SharedMemory::get().add(reinterpret_cast<void*>(base), base, bytes, call.device(),
                                beside ? SharedMemory::Host::works_beside : SharedMemory::Host::waits);
    }
    return base;
}

CUdeviceptr allocate_in_stream(size_t bytes, CUmemoryPool pool, CUstream stream) {
    Call call;
    check(call.begin_for(stream));
    wire::AllocateHead head = head_of(Kind::stream_ordered, bytes);
    require(call.stream(stream, in_per_thread_form(), head.stream), CUDA_ERROR_INVALID_HANDLE);
    if (!pool) pool = client::current_pool(call.device());
    const client::Pool* known = pool_of(pool, head.pool);
    require(known != nullptr);
    return client::allocate(call, head,
                            {.device = known->device,
                             .context = context_of_stream(head.stream),
                             .pool = reinterpret_cast<uint64_t>(pool)})
        .address;
}

// What is left of it here goes now.
bool freed_earlier(CUdeviceptr address, bool in_stream) {
    if (!in_stream) {
        const auto earlier = MemoryMap::get().take_earlier(address, client::Memory::Kind::managed);
        if (earlier && !SliceFile::get().unmap(address)) unmap(earlier->base, earlier->bytes);
        if (earlier) return true;
    }
    if (!MemoryMap::get().free_earlier(address)) return false;
    SliceFile::get().unmap(address);
    return true;
}

void free(CUdeviceptr address) {
    using Kind = client::Memory::Kind;
    Call call;
    check(call.begin());
    const auto memory = MemoryMap::get().remove(address, {Kind::device, Kind::managed});
    require(memory.has_value());
    if (memory->kind == Kind::managed) {
        SharedMemory::get().remove(reinterpret_cast<void*>(memory->base));
        cuda::ManagedAdvice::get().forget(memory->base);
        if (!SliceFile::get().unmap(memory->base)) unmap(memory->base, memory->bytes);
    } else {
        SliceFile::get().unmap(memory->base);
    }
    const wire::cuMemFree_v2_message message{memory->device_address};
    check(call.post(wire::kOp_cuMemFree_v2, 0, &message, sizeof message));
}

void free_in_stream(CUdeviceptr address, CUstream stream) {
    Call call;
    check(call.begin_for(stream));
    wire::cuMemFreeAsync_message message{address, 0};
    require(call.stream(stream, in_per_thread_form(), message.hStream), CUDA_ERROR_INVALID_HANDLE);
    require(MemoryMap::get().remove(address, {client::Memory::Kind::device}).has_value());
    SliceFile::get().unmap(address);
    check(call.post(wire::kOp_cuMemFreeAsync, 0, &message, sizeof message));
}

void* pin(CUdevice device, size_t bytes, unsigned flags) {
    void* memory = map_pinned(bytes);
    if (!memory) refuse(gk_no_pinned_memory(bytes));
    MemoryMap::get().add(client::host_memory(device, memory, bytes, flags));
    return memory;
}

void unpin(void* memory) {
    const auto address = reinterpret_cast<uint64_t>(memory);
    if (const auto earlier = MemoryMap::get().take_earlier(address, client::Memory::Kind::pinned)) {
        unmap_pinned(memory, earlier->bytes);
        return;
    }
    const auto known = MemoryMap::get().find(address);
    require(known && known->base == address);
    // A graph may have yet to write here. After an error of that nothing comes any more.
    const HostRange range{address, known->bytes};
    Call call;
    if (GraphOutputs::get().any() && call.begin_without_context() == CUDA_SUCCESS)
        GraphOutputs::get().settle(call, {&range, 1});
    CopiesBack::get().settle(address, known->bytes);
    // Whose removal it is frees it, whatever other threads do.
    const auto removed = MemoryMap::get().remove_host(address, false);
    require(removed.has_value());
    drop_twin(*removed);
    unmap_pinned(memory, removed->bytes);
}

void register_host(CUdevice device, void* memory, size_t bytes, unsigned flags) {
    client::Memory own = client::host_memory(device, memory, bytes, flags);
    own.registered = true;
    require(MemoryMap::get().add_new(own), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
}

void unregister_host(void* memory) {
    const auto address = reinterpret_cast<uint64_t>(memory);
    if (const auto known = MemoryMap::get().find(address)) CopiesBack::get().settle(address, known->bytes);
    const auto removed = MemoryMap::get().remove_host(address, true);
    require(removed.has_value(), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    drop_twin(*removed);
}

// The device's copy is made here, on demand: most pinned memory is only ever copied from and to.
CUdeviceptr device_pointer(void* host_memory) {
    Call call;
    check(call.begin());
    const auto address = reinterpret_cast<uint64_t>(host_memory);
    auto known = MemoryMap::get().find(address);
    require(known && known->kind == client::Memory::Kind::pinned);
    check(give_twin(call, *known));
    return known->device_address + (address - known->base);
}

}  // namespace front::platform
