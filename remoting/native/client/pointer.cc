// What a pointer is, answered from the map of this process's memory.
#include <cstring>

#include "context.h"
#include "memory_map.h"
#include "session.h"

namespace client {
namespace {

template <typename T>
CUresult answer(void* data, T value) {
    std::memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
}

CUresult attribute(void* data, CUpointer_attribute which, const Memory& memory, uint64_t address) {
    const bool pinned = memory.kind == Memory::Kind::pinned;
    const uint64_t offset = address - memory.base;
    switch (which) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            return answer(data, handle_of(context_with(memory.context)));
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return answer(data, static_cast<unsigned>(pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            // Pinned memory that has no twin yet will have it at its own address.
            if (!memory.device_address && memory.registered) return CUDA_ERROR_INVALID_VALUE;
            return answer(data, pinned && memory.device_address ? memory.device_address + offset : address);
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (memory.kind == Memory::Kind::device) return CUDA_ERROR_INVALID_VALUE;
            return answer(data, address);
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
            return answer(data, 0);
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            return answer(data, static_cast<unsigned long long>(memory.id));
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            return answer(data, memory.kind == Memory::Kind::managed ? 1 : 0);
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            return answer(data, static_cast<int>(memory.device));
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            return answer(data, 0);
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            return answer(data, memory.base);
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            return answer(data, static_cast<size_t>(memory.bytes));
        case CU_POINTER_ATTRIBUTE_MAPPED:
            return answer(data, 1);
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
            return answer(data, uint64_t{0});
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
            return answer(data, 0);
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            return answer(data, static_cast<int>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            return answer(data, memory.pool);
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
            return answer(data, static_cast<size_t>(memory.bytes));
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
            return answer(data, memory.base);
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
            return answer(data, static_cast<unsigned long long>(memory.id));
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
            return answer(data, 0);
        case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL:
            return answer(data, -1);
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

// What cuPointerGetAttributes says of memory that CUDA does not know. The size is that of the attribute.
size_t size_of(CUpointer_attribute which) {
    switch (which) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL:
            return 4;
        case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
            return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
        default:
            return 8;
    }
}

}  // namespace
}  // namespace client

using namespace client;

extern "C" {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!data) return CUDA_ERROR_INVALID_VALUE;
    const auto memory = MemoryMap::get().find(ptr);
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    return client::attribute(data, attribute, *memory, ptr);
}

// Unlike the single form this one does not fail for memory that CUDA does not know: it answers zeros, and -2
// for the device.
CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr ptr) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
    const auto memory = MemoryMap::get().find(ptr);
    for (unsigned i = 0; i < numAttributes; ++i) {
        if (memory && client::attribute(data[i], attributes[i], *memory, ptr) == CUDA_SUCCESS) continue;
        std::memset(data[i], 0, size_of(attributes[i]));
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) answer(data[i], -2);
    }
    return CUDA_SUCCESS;
}

// All operations are ordered as if this were set.
CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    return MemoryMap::get().find(ptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    const auto memory = MemoryMap::get().find(dptr);
    if (!memory) return CUDA_ERROR_NOT_FOUND;
    if (pbase) *pbase = memory->base;
    if (psize) *psize = memory->bytes;
    return CUDA_SUCCESS;
}
}
