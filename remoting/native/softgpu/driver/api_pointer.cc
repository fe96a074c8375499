// Entry points: what a pointer points to.
#include <cstring>

#include "driver.h"
#include "pool.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

template <class T>
void put(void* data, T value) {
    std::memcpy(data, &value, sizeof value);
}

// Memory that is in no block but that kernels may touch: a global of a module, or a mapping.
std::optional<Block> block_at(Driver& driver, CUdeviceptr address) {
    if (auto block = driver.memory.find(address)) return block;
    const auto allocation = driver.memory.allocation_at(address);
    if (!allocation) return std::nullopt;
    return Block{.base = allocation->base, .bytes = allocation->bytes, .device = driver.memory.device_at(address)};
}

// The answer for a block, or for a pointer that the driver knows nothing of. False for an unknown attribute.
bool answer(Driver& driver, CUpointer_attribute attribute, CUdeviceptr address,
            const std::optional<Block>& block, void* data) {
    const bool on_device = block && block->on_device();
    const bool managed = block && block->place == Place::managed;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: {
            put(data, block ? block->context_handle : uint64_t{0});
            return true;
        }
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            put(data, block ? (on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST) : CUmemorytype{});
            return true;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            put(data, block ? address : CUdeviceptr{0});
            return true;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            put(data, block && (!on_device || managed) ? address : CUdeviceptr{0});
            return true;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
            put(data, static_cast<unsigned long long>(block ? block->id : 0));
            return true;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            put(data, int{managed});
            return true;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            put(data, block ? block->device : -2);  // what CUDA says of memory that it does not know
            return true;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
            put(data, block ? block->base : uint64_t{0});
            return true;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
            put(data, static_cast<size_t>(block ? block->bytes : 0));
            return true;
        case CU_POINTER_ATTRIBUTE_MAPPED:
            put(data, int{block.has_value()});
            return true;
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
            put(data, 0ull);
            return true;
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            put(data, block ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
            return true;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            put(data, block && block->pool ? block->pool->handle : uint64_t{0});
            return true;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
            put(data, 0);
            return true;
        case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL:
            put(data, -1);
            return true;
        default:
            return false;
    }
}

}  // namespace

extern "C" {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    return context_call([&](Context& context) {
        require(data != nullptr);
        const auto block = block_at(context.driver, ptr);
        require(block.has_value() && answer(context.driver, attribute, ptr, block, data));
    });
}

// Unlike the single form, this answers with zeros for memory that the driver does not know.
CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr ptr) {
    return context_call([&](Context& context) {
        require(numAttributes > 0 && attributes != nullptr && data != nullptr);
        const auto block = block_at(context.driver, ptr);
        for (unsigned i = 0; i < numAttributes; ++i) {
            require(data[i] != nullptr && answer(context.driver, attributes[i], ptr, block, data[i]));
        }
    });
}

// All operations are ordered as if this were set.
CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    return context_call([&](Context& context) {
        require(value != nullptr && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
        require(block_at(context.driver, ptr).has_value());
    });
}
}
