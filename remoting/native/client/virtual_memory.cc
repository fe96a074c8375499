// Addresses and memory apart from each other: cuMemAddressReserve, cuMemCreate, cuMemMap and their kin.
//
// A handle of memory counts its references: those that the program has and those of its mappings. When none
// is left the worker is told, and gives the memory back to the slice.
#include "virtual_memory.h"

#include <mutex>

#include "call.h"
#include "calls_wire.h"
#include "front/platform.h"
#include "handles.h"
#include "memory_map.h"
#include "session.h"

namespace client {
namespace {

struct Physical {
    uint8_t device = 0;
    uint64_t held = 0;    // by the program
    uint64_t mapped = 0;  // places
};

HandleTable<Physical>& physicals() {
    static auto* table = new HandleTable<Physical>(wire::HandleKind::physical);
    return *table;
}

// Of the counts, and of what follows from them.
std::mutex& counts() {
    static auto* mutex = new std::mutex;
    return *mutex;
}

// Under counts().
CUresult forget_if_unused(Call& call, uint64_t handle) {
    const Physical* physical = physicals().find(handle);
    if (!physical || physical->held > 0 || physical->mapped > 0) return CUDA_SUCCESS;
    physicals().remove(handle);
    const wire::cuMemRelease_message message{handle};
    return call.post(wire::kOp_cuMemRelease, 0, &message, sizeof message);
}

// Refuses a handle that the program has given back, though mappings keep its memory. Under counts().
Physical& held_by_program(uint64_t handle) {
    Physical* physical = physicals().find(handle);
    if (!physical) cuda::check(Session::get().error());  // between two lives none is known
    cuda::require(physical && physical->held > 0);
    return *physical;
}

Memory mapping_at(CUdeviceptr address) {
    const auto memory = MemoryMap::get().find(address);
    if (!memory) cuda::check(Session::get().error());  // between two lives there is none
    cuda::require(memory && memory->mapping);
    return *memory;
}

}  // namespace

CUresult place_memory(Call& call, uint64_t base, uint64_t bytes, uint64_t in_use, uint64_t& handle) {
    if (Session::get().devices()[call.device()].granularity[0] == 0) return CUDA_ERROR_NOT_SUPPORTED;
    const wire::cuMemAddressReserve_message reserve{bytes, 0, base, 0};
    uint64_t reserved = 0;
    if (CUresult error = call.ask(wire::kOp_cuMemAddressReserve, 0, &reserve, sizeof reserve, &reserved,
                                  sizeof reserved)) {
        return error == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_NOT_SUPPORTED : error;
    }
    const uint64_t fresh =
        physicals().add([&](Physical& physical, uint64_t) { physical = {call.device(), 1, 1}; });
    const wire::CreateMemoryHead create{fresh, bytes};
    const wire::cuMemMap_message map{base, bytes, 0, fresh, 0};
    const wire::AccessHead access{base, bytes, Session::get().number_in_lease(call.device()),
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE, in_use};
    CUresult result = reserved == base && fresh ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS) {
        result = call.ask(wire::kOpCreateMemory, 0, &create, sizeof create, nullptr, 0);
        if (result == CUDA_SUCCESS) {
            result = call.ask(wire::kOp_cuMemMap, 0, &map, sizeof map, nullptr, 0);
            if (result == CUDA_SUCCESS) {
                result = call.ask(wire::kOpSetAccess, 0, &access, sizeof access, nullptr, 0);
            }
        }
    }
    handle = fresh;
    if (result != CUDA_SUCCESS) take_memory_away(call, reserved, bytes, fresh);
    if (result != CUDA_SUCCESS) handle = 0;
    return result;
}

void forget_physicals() {
    physicals().forget_all();
}

void take_memory_away(Call& call, uint64_t base, uint64_t bytes, uint64_t handle) {
    const wire::cuMemUnmap_message unmap{base, bytes};
    call.ask(wire::kOp_cuMemUnmap, 0, &unmap, sizeof unmap, nullptr, 0);
    const wire::cuMemAddressFree_message free{base, bytes};
    call.ask(wire::kOp_cuMemAddressFree, 0, &free, sizeof free, nullptr, 0);
    if (!physicals().remove(handle)) return;
    const wire::cuMemRelease_message release{handle};
    call.post(wire::kOp_cuMemRelease, 0, &release, sizeof release);
}

}  // namespace client

namespace front::platform {

using namespace client;

CUdeviceptr reserve_addresses(size_t bytes, size_t alignment, CUdeviceptr wished) {
    Call call;
    check(call.begin_anew());
    const wire::cuMemAddressReserve_message message{bytes, alignment, wished, 0};
    CUdeviceptr base = 0;
    check(call.ask(wire::kOp_cuMemAddressReserve, 0, &message, sizeof message, &base, sizeof base));
    return base;
}

void free_addresses(CUdeviceptr base, size_t bytes) {
    Call call;
    check(call.begin_without_context());
    const wire::cuMemAddressFree_message message{base, bytes};
    check(call.ask(wire::kOp_cuMemAddressFree, 0, &message, sizeof message, nullptr, 0));
}

size_t granularity(CUdevice device, bool recommended) {
    return Session::get().devices()[static_cast<size_t>(device)].granularity[recommended];
}

CUmemGenericAllocationHandle create_memory(CUdevice device, size_t bytes) {
    Call call;
    check(call.begin_on(static_cast<uint8_t>(device)));
    const uint64_t fresh =
        physicals().add([&](Physical& physical, uint64_t) { physical = {call.device(), 1, 0}; });
    require(fresh != 0, CUDA_ERROR_OUT_OF_MEMORY);
    const wire::CreateMemoryHead message{fresh, bytes};
    if (CUresult error = call.ask(wire::kOpCreateMemory, 0, &message, sizeof message, nullptr, 0)) {
        physicals().remove(fresh);
        refuse(error);
    }
    return fresh;
}

CUdevice device_of_memory(CUmemGenericAllocationHandle memory) {
    const std::lock_guard lock(counts());
    return held_by_program(memory).device;
}

CUmemGenericAllocationHandle retain_memory(CUdeviceptr mapped_at) {
    const std::lock_guard lock(counts());
    const uint64_t handle = mapping_at(mapped_at).physical;
    ++physicals().find(handle)->held;
    return handle;
}

void release_memory(CUmemGenericAllocationHandle memory) {
    Call call;
    check(call.begin_without_context());
    const std::lock_guard lock(counts());
    --held_by_program(memory).held;
    check(forget_if_unused(call, memory));
}

void map_memory(CUdeviceptr base, size_t bytes, CUmemGenericAllocationHandle memory) {
    Call call;
    check(call.begin_without_context());
    const std::lock_guard lock(counts());
    Physical& physical = held_by_program(memory);
    call.use_device(physical.device);
    const wire::cuMemMap_message message{base, bytes, 0, memory, 0};
    check(call.ask(wire::kOp_cuMemMap, 0, &message, sizeof message, nullptr, 0));
    ++physical.mapped;
    client::Memory mapping;
    mapping.base = mapping.device_address = base;
    mapping.bytes = bytes;
    mapping.device = physical.device;
    mapping.mapping = true;
    mapping.physical = memory;
    MemoryMap::get().add(mapping);
}

void unmap_memory(CUdeviceptr base, size_t bytes) {
    Call call;
    check(call.begin_without_context());
    const std::lock_guard lock(counts());
    const wire::cuMemUnmap_message message{base, bytes};
    check(call.ask(wire::kOp_cuMemUnmap, 0, &message, sizeof message, nullptr, 0));
    for (const client::Memory& gone : MemoryMap::get().remove_mappings(base, bytes)) {
        --physicals().find(gone.physical)->mapped;
        forget_if_unused(call, gone.physical);
    }
}

void set_access(CUdeviceptr base, size_t bytes, CUdevice device, bool granted) {
    Call call;
    check(call.begin_without_context());
    const auto its = static_cast<uint8_t>(device);
    const uint32_t flags = granted ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const wire::AccessHead message{base, bytes, Session::get().number_in_lease(its), flags, 0};
    check(call.ask(wire::kOpSetAccess, 0, &message, sizeof message, nullptr, 0));
    MemoryMap::get().set_access(base, bytes, its, granted);
}

uint32_t mapping_accessible_from(CUdeviceptr address) {
    return mapping_at(address).access;
}

}  // namespace front::platform
