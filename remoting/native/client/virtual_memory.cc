// Addresses and memory apart from each other: cuMemAddressReserve, cuMemCreate, cuMemMap and their kin.
//
// A handle of memory counts its references: those that the program has and those of its mappings. When none
// is left the worker is told, and gives the memory back to the slice.
#include "virtual_memory.h"

#include <mutex>

#include "call.h"
#include "calls_wire.h"
#include "context.h"
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

// What of `properties` is not done here; null where all is.
const char* undone(const CUmemAllocationProp& properties) {
    if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return "cuMemCreate of memory that is not pinned to its place";
    }
    if (properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        return "cuMemCreate of memory that other processes may open";
    }
    if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return "cuMemCreate of memory that is not on a device";
    }
    return nullptr;
}

CUresult check_properties(const CUmemAllocationProp* properties) {
    if (!properties) return CUDA_ERROR_INVALID_VALUE;
    if (const char* name = undone(*properties)) {
        gk_unsupported(name);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return check_device(properties->location.id);
}

// For who only asks, and will do it in another way: nobody is told.
CUresult check_asked_properties(const CUmemAllocationProp* properties) {
    if (properties && undone(*properties)) return CUDA_ERROR_NOT_SUPPORTED;
    return check_properties(properties);
}

// Under counts().
CUresult forget_if_unused(Call& call, uint64_t handle) {
    const Physical* physical = physicals().find(handle);
    if (!physical || physical->held > 0 || physical->mapped > 0) return CUDA_SUCCESS;
    physicals().remove(handle);
    const wire::cuMemRelease_message message{handle};
    return call.post(wire::kOp_cuMemRelease, 0, &message, sizeof message);
}

// Null for a handle that the program has given back, though mappings keep its memory.
Physical* held_by_program(uint64_t handle) {
    Physical* physical = physicals().find(handle);
    return physical && physical->held > 0 ? physical : nullptr;
}

CUresult set_access(Call& call, uint64_t base, uint64_t bytes, const CUmemAccessDesc& access) {
    if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        static bool told;
        return gk_unsupported_once("cuMemSetAccess for a place that is not a device", &told);
    }
    if (CUresult error = check_device(access.location.id)) return error;
    const bool none = access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (!none && access.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        if (access.flags != CU_MEM_ACCESS_FLAGS_PROT_READ) return CUDA_ERROR_INVALID_VALUE;
        static bool told;
        return gk_unsupported_once("cuMemSetAccess for reading only", &told);
    }
    const auto device = static_cast<uint8_t>(access.location.id);
    const wire::AccessHead message{base, bytes, Session::get().number_in_lease(device),
                                   static_cast<uint32_t>(access.flags), 0};
    if (CUresult error = call.ask(wire::kOpSetAccess, 0, &message, sizeof message, nullptr, 0)) return error;
    MemoryMap::get().set_access(base, bytes, device, !none);
    return CUDA_SUCCESS;
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

using namespace client;

extern "C" {

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
    Call call;
    if (CUresult error = call.begin_anew()) return error;
    if (!ptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const wire::cuMemAddressReserve_message message{size, alignment, addr, flags};
    return call.ask(wire::kOp_cuMemAddressReserve, 0, &message, sizeof message, ptr, sizeof *ptr);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    const wire::cuMemAddressFree_message message{ptr, size};
    return call.ask(wire::kOp_cuMemAddressFree, 0, &message, sizeof message, nullptr, 0);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
    Call call;
    if (CUresult error = call.begin_anew()) return error;
    if (!handle || size == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = check_properties(prop)) return error;
    call.use_device(static_cast<uint8_t>(prop->location.id));
    const uint64_t fresh =
        physicals().add([&](Physical& physical, uint64_t) { physical = {call.device(), 1, 0}; });
    if (!fresh) return CUDA_ERROR_OUT_OF_MEMORY;
    const wire::CreateMemoryHead message{fresh, size};
    if (CUresult error = call.ask(wire::kOpCreateMemory, 0, &message, sizeof message, nullptr, 0)) {
        physicals().remove(fresh);
        return error;
    }
    *handle = fresh;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    const std::lock_guard lock(counts());
    Physical* physical = held_by_program(handle);
    if (!physical) return CUDA_ERROR_INVALID_VALUE;
    --physical->held;
    return forget_if_unused(call, handle);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    const std::lock_guard lock(counts());
    const auto memory = MemoryMap::get().find(reinterpret_cast<uint64_t>(addr));
    if (!handle || !memory || !memory->mapping) return CUDA_ERROR_INVALID_VALUE;
    ++physicals().find(memory->physical)->held;
    *handle = memory->physical;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    const std::lock_guard lock(counts());
    Physical* physical = held_by_program(handle);
    if (!physical || size == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    call.use_device(physical->device);
    const wire::cuMemMap_message message{ptr, size, offset, handle, flags};
    if (CUresult error = call.ask(wire::kOp_cuMemMap, 0, &message, sizeof message, nullptr, 0)) return error;
    ++physical->mapped;
    Memory memory;
    memory.base = memory.device_address = ptr;
    memory.bytes = size;
    memory.device = physical->device;
    memory.mapping = true;
    memory.physical = handle;
    MemoryMap::get().add(memory);
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    const std::lock_guard lock(counts());
    const wire::cuMemUnmap_message message{ptr, size};
    if (CUresult error = call.ask(wire::kOp_cuMemUnmap, 0, &message, sizeof message, nullptr, 0)) {
        return error;
    }
    for (const Memory& gone : MemoryMap::get().remove_mappings(ptr, size)) {
        --physicals().find(gone.physical)->mapped;
        forget_if_unused(call, gone.physical);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    if (!desc || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        if (CUresult error = set_access(call, ptr, size, desc[i])) return error;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    const auto memory = MemoryMap::get().find(ptr);
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = check_device(location->id)) return error;
    if (!memory || !memory->mapping) return CUDA_ERROR_INVALID_VALUE;
    const bool granted = memory->access >> location->id & 1;
    *flags = granted ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!granularity ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (CUresult error = check_asked_properties(prop)) return error;
    const wire::DeviceSnapshot& device = Session::get().devices()[static_cast<size_t>(prop->location.id)];
    *granularity = device.granularity[option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED];
    return *granularity ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    const std::lock_guard lock(counts());
    const Physical* physical = held_by_program(handle);
    if (!prop || !physical) return CUDA_ERROR_INVALID_VALUE;
    *prop = {};
    prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop->requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop->location.id = physical->device;
    return CUDA_SUCCESS;
}
}
