// Allocating and freeing: device, pitched, pooled, pinned and managed memory.
#include <stdlib.h>
#include <sys/mman.h>

#include <cstring>

#include "call.h"
#include "calls_wire.h"
#include "capture.h"
#include "context.h"
#include "graph_replay.h"
#include "graphs/arguments.h"
#include "managed_advice.h"
#include "mapped.h"
#include "memory_map.h"
#include "payload.h"
#include "pool.h"
#include "session.h"
#include "shared_memory.h"
#include "slice_file.h"

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

CUresult allocate(Call& call, const wire::AllocateHead& head, Memory memory, Allocated& allocated) {
    auto anywhere = [](const Allocated&) { return true; };
    if (CUresult error = allocate_elsewhere(call, head, allocated, anywhere)) return error;
    memory.base = memory.device_address = allocated.address;
    memory.bytes = head.rows ? allocated.pitch * head.rows : head.bytes;
    memory.device = call.device();
    // Mapped first: a context that another thread ends takes away what it finds in the memory map.
    if (head.kind == static_cast<uint32_t>(wire::AllocationKind::mappable) &&
        allocated.place != wire::kNoPlace)
        SliceFile::get().map(allocated.address, head.bytes, allocated.place);
    MemoryMap::get().add(memory);
    return CUDA_SUCCESS;
}

CUresult allocate_from_pool(CUdeviceptr* dptr, size_t bytes, CUmemoryPool pool, CUstream stream,
                            bool per_thread) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (!dptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (auto answer = captured(stream, per_thread, [&] { return graphs::alloc_params(bytes, dptr); }))
        return *answer;
    wire::AllocateHead head{};
    head.kind = static_cast<uint32_t>(wire::AllocationKind::stream_ordered);
    head.bytes = bytes;
    if (!call.stream(stream, per_thread, head.stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (!pool) pool = current_pool(call.device());
    const Pool* known = pool_of(pool, head.pool);
    if (!known || known->device != call.device()) return CUDA_ERROR_INVALID_VALUE;
    Memory memory;
    memory.pool = reinterpret_cast<uint64_t>(pool);
    Allocated allocated{};
    const CUresult result = allocate(call, head, memory, allocated);
    if (result == CUDA_SUCCESS) *dptr = allocated.address;
    return result;
}

// Device memory of a life that has ended: what is left of it here goes now.
bool freed_earlier(CUdeviceptr dptr) {
    if (!MemoryMap::get().free_earlier(dptr)) return false;
    SliceFile::get().unmap(dptr);
    return true;
}

CUresult free_on_stream(CUdeviceptr dptr, CUstream stream, bool per_thread) {
    if (freed_earlier(dptr)) return CUDA_SUCCESS;
    Call call;
    if (CUresult error = call.begin()) return error;
    if (auto answer = captured(stream, per_thread, [&] { return graphs::free_params(dptr); })) return *answer;
    bool freed = false;
    if (CUresult error = graphs::guarded([&] { freed = graphs::free_of_graph(dptr); })) return error;
    if (freed) return CUDA_SUCCESS;
    wire::cuMemFreeAsync_message message{dptr, 0};
    if (!call.stream(stream, per_thread, message.hStream)) return CUDA_ERROR_INVALID_HANDLE;
    if (dptr == 0) return CUDA_SUCCESS;
    if (!MemoryMap::get().remove(dptr, {Memory::Kind::device})) return CUDA_ERROR_INVALID_VALUE;
    SliceFile::get().unmap(dptr);
    return call.post(wire::kOp_cuMemFreeAsync, 0, &message, sizeof message);
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

CUresult pin(void** pp, size_t bytes, unsigned flags) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!pp || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    void* memory = map_pinned(bytes);
    if (!memory) return gk_no_pinned_memory(bytes);
    Memory pinned;
    pinned.base = reinterpret_cast<uint64_t>(memory);
    pinned.bytes = bytes;
    pinned.kind = Memory::Kind::pinned;
    pinned.device = context->device;
    pinned.flags = flags;
    MemoryMap::get().add(pinned);
    *pp = memory;
    return CUDA_SUCCESS;
}

}  // namespace

}  // namespace client

using namespace client;

extern "C" {

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
    uint64_t values[2];
    if (CUresult error = call.ask(wire::kOpMemoryInfo, 0, nullptr, 0, values, sizeof values)) return error;
    *free = values[0];
    *total = values[1];
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (CUresult error = refuse_unsafe()) return error;
    if (!dptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
    wire::AllocateHead head{};
    if (SliceFile::get().wants(bytesize)) head.kind = static_cast<uint32_t>(wire::AllocationKind::mappable);
    head.bytes = bytesize;
    Allocated allocated{};
    if (CUresult error = allocate(call, head, {}, allocated)) return error;
    *dptr = allocated.address;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0) return CUDA_ERROR_INVALID_VALUE;
    wire::AllocateHead head{};
    head.kind = static_cast<uint32_t>(wire::AllocationKind::pitched);
    head.bytes = WidthInBytes;
    head.rows = Height;
    head.element = ElementSizeBytes;
    Allocated allocated{};
    if (CUresult error = allocate(call, head, {}, allocated)) return error;
    *dptr = allocated.address;
    *pPitch = allocated.pitch;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (!dptr || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    wire::AllocateHead head{};
    head.kind = static_cast<uint32_t>(wire::AllocationKind::managed);
    head.bytes = bytesize;
    Allocated allocated{};
    bool mapped = false;
    auto first_page = [](const Allocated& at) { return (at.address + kPage - 1) / kPage * kPage; };
    auto map = [&](const Allocated& at) { return mapped = map_at(first_page(at), bytesize); };
    if (CUresult error = allocate_elsewhere(call, head, allocated, map)) return error;
    const uint64_t base = first_page(allocated);
    if (!mapped && !map(allocated)) {
        give_back(call, head, allocated.address);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    Memory memory;
    memory.base = base;
    memory.bytes = bytesize;
    memory.kind = Memory::Kind::managed;
    memory.device = call.device();
    memory.device_address = allocated.address;
    MemoryMap::get().add(memory);
    SharedMemory::get().add(
        reinterpret_cast<void*>(base), base, bytesize, call.device(),
        flags == CU_MEM_ATTACH_HOST ? SharedMemory::Host::works_beside : SharedMemory::Host::waits);
    *dptr = base;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
    if (const auto earlier = MemoryMap::get().take_earlier(dptr, Memory::Kind::managed)) {
        unmap(earlier->base, earlier->bytes);
        return CUDA_SUCCESS;
    }
    if (freed_earlier(dptr)) return CUDA_SUCCESS;
    Call call;
    if (CUresult error = call.begin()) return error;
    if (dptr == 0) return CUDA_SUCCESS;
    if (CUresult error = refuse_unsafe()) return error;
    bool freed = false;
    if (CUresult error = graphs::guarded([&] { freed = graphs::free_of_graph(dptr); })) return error;
    if (freed) return CUDA_SUCCESS;
    const auto memory = MemoryMap::get().remove(dptr, {Memory::Kind::device, Memory::Kind::managed});
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    if (memory->kind == Memory::Kind::managed) {
        SharedMemory::get().remove(reinterpret_cast<void*>(memory->base));
        cuda::ManagedAdvice::get().forget(memory->base);
        unmap(memory->base, memory->bytes);
    } else {
        SliceFile::get().unmap(memory->base);
    }
    const wire::cuMemFree_v2_message message{memory->device_address};
    return call.post(wire::kOp_cuMemFree_v2, 0, &message, sizeof message);
}

CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
    return allocate_from_pool(dptr, bytesize, nullptr, hStream, false);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
    return allocate_from_pool(dptr, bytesize, nullptr, hStream, true);
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    return allocate_from_pool(dptr, bytesize, pool, hStream, false);
}
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                      CUstream hStream) {
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    return allocate_from_pool(dptr, bytesize, pool, hStream, true);
}
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    return free_on_stream(dptr, hStream, false);
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
    return free_on_stream(dptr, hStream, true);
}

CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
    constexpr unsigned kKnown =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    return Flags & ~kKnown ? CUDA_ERROR_INVALID_VALUE : pin(pp, bytesize, Flags);
}
CUresult cuMemAllocHost_v2(void** pp, size_t bytesize) {
    return pin(pp, bytesize, 0);
}

CUresult cuMemFreeHost(void* p) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    const auto address = reinterpret_cast<uint64_t>(p);
    if (const auto earlier = MemoryMap::get().take_earlier(address, Memory::Kind::pinned)) {
        munmap(p, earlier->bytes);
        return CUDA_SUCCESS;
    }
    const auto known = MemoryMap::get().find(address);
    if (!known || known->base != address || known->kind != Memory::Kind::pinned || known->registered) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    // A graph may have yet to write here. After an error of that nothing comes any more.
    const HostRange range{address, known->bytes};
    Call call;
    if (GraphOutputs::get().any() && call.begin_without_context() == CUDA_SUCCESS)
        GraphOutputs::get().settle(call, {&range, 1});
    MemoryMap::get().remove(address, {Memory::Kind::pinned});
    drop_twin(*known);
    munmap(p, known->bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    constexpr unsigned kKnown =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
    if (!p || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
    if (Flags & ~kKnown) return CUDA_ERROR_NOT_SUPPORTED;
    const auto address = reinterpret_cast<uint64_t>(p);
    if (MemoryMap::get().find(address)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    Memory memory;
    memory.base = address;
    memory.bytes = bytesize;
    memory.kind = Memory::Kind::pinned;
    memory.device = context->device;
    memory.registered = true;
    memory.flags = Flags & CU_MEMHOSTREGISTER_DEVICEMAP ? CU_MEMHOSTALLOC_DEVICEMAP : 0;
    MemoryMap::get().add(memory);
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
    return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void* p) {
    const auto address = reinterpret_cast<uint64_t>(p);
    const auto known = MemoryMap::get().find(address);
    if (!known || known->base != address || !known->registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    MemoryMap::get().remove(address, {Memory::Kind::pinned});
    drop_twin(*known);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
    const auto known = MemoryMap::get().find(reinterpret_cast<uint64_t>(p));
    if (!pFlags || !known || known->kind != Memory::Kind::pinned) return CUDA_ERROR_INVALID_VALUE;
    *pFlags = known->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

// The device's copy is made here, on demand: most pinned memory is only ever copied from and to.
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
    Call call;
    if (CUresult error = call.begin()) return error;
    const auto address = reinterpret_cast<uint64_t>(p);
    auto known = MemoryMap::get().find(address);
    if (!pdptr || Flags != 0 || !known || known->kind != Memory::Kind::pinned)
        return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = give_twin(call, *known)) return error;
    *pdptr = known->device_address + (address - known->base);
    return CUDA_SUCCESS;
}
}
