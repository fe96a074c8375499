// Entry points: what a pointer points to, answered from the library's map of the process's memory.
#include <cstring>

#include "platform.h"

using namespace front;

namespace {

template <class T>
bool put(void* data, T value) {
    std::memcpy(data, &value, sizeof value);
    return true;
}

CUmemorytype type_of(const Memory& memory) {
    return memory.on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

// What CUDA says of memory that it does not know.
const Memory kUnknown{.device = -2};

// False for an attribute that is none. `known` is null for memory that CUDA does not know.
bool answer(void* data, CUpointer_attribute attribute, CUdeviceptr address, const Memory* known) {
    const Memory& memory = known ? *known : kUnknown;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            return put(data, known ? platform::owner(memory) : nullptr);
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return put(data, known ? type_of(memory) : CUmemorytype{});
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            return put(data, memory.device_address);
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            return put(data, known && (!memory.on_device || memory.managed) ? address : CUdeviceptr{0});
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
            return put(data, static_cast<unsigned long long>(memory.id));
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            return put(data, int{memory.managed});
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            return put(data, memory.device);
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
            return put(data, memory.base);
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
            return put(data, static_cast<size_t>(memory.bytes));
        case CU_POINTER_ATTRIBUTE_MAPPED:
            return put(data, int{known != nullptr});
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
            return put(data, 0ull);
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            return put(data, known ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            return put(data, memory.pool);
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
            return put(data, 0);
        case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
            return put(data, CUDA_POINTER_ATTRIBUTE_P2P_TOKENS{});
        case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL:
            return put(data, -1);
        default:
            return false;
    }
}

// A pointer that kernels, or the host, cannot use has none.
bool has(CUpointer_attribute attribute, const Memory& memory) {
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) return memory.device_address != 0;
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) return false;  // there are none
    return attribute != CU_POINTER_ATTRIBUTE_HOST_POINTER || !memory.on_device || memory.managed;
}

}  // namespace

extern "C" {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    return call([&] {
        require(data != nullptr);
        const auto memory = platform::memory_at(ptr);
        require(memory && has(attribute, *memory) && answer(data, attribute, ptr, &*memory));
    });
}

// Unlike the single form this one does not fail where there is nothing to say: it answers zeros.
CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr ptr) {
    return call([&] {
        require(numAttributes > 0 && attributes != nullptr && data != nullptr);
        const auto memory = platform::memory_at(ptr);
        for (unsigned i = 0; i < numAttributes; ++i) {
            require(data[i] && answer(data[i], attributes[i], ptr, memory ? &*memory : nullptr));
        }
    });
}

// All operations are ordered as if this were set.
CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    return call([&] {
        require(value != nullptr && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
        require(platform::memory_at(ptr).has_value());
    });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
    return call([&] {
        const auto memory = platform::memory_at(dptr);
        require(memory.has_value(), CUDA_ERROR_NOT_FOUND);
        if (pbase) *pbase = memory->base;
        if (psize) *psize = memory->bytes;
    });
}
}
