// What front/platform.h wants of this driver about memory: what is at an address, allocation, pools, and
// addresses apart from memory.
#include "driver.h"
#include "front/platform.h"
#include "managed_advice.h"
#include "pool.h"
#include "stream_call.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace front::platform {
namespace {

std::shared_ptr<driver::Pool> find_pool(CUmemoryPool handle) {
    return live().handles.get<driver::Pool>(handle, CUDA_ERROR_INVALID_VALUE);
}

VirtualMemory& addresses() {
    return live().memory.addresses();
}

std::shared_ptr<Physical> find_physical(CUmemGenericAllocationHandle handle) {
    auto found = live().handles.find<Physical>(handle);
    require(found != nullptr);
    return found;
}

VirtualMemory::Mapping mapping_at(CUdeviceptr address) {
    const auto mapping = addresses().find(address);
    require(mapping.has_value());
    return *mapping;
}

}  // namespace

std::optional<Memory> memory_at(CUdeviceptr address) {
    driver::Memory& memory = live().memory;
    Memory found{.device_address = address};
    if (const auto block = memory.find(address)) {
        found.base = block->base;
        found.bytes = block->bytes;
        found.id = block->id;
        found.device = block->device;
        found.owner = block->context_handle;
        if (block->pool) found.pool = as_handle<CUmemoryPool>(block->pool->handle);
        found.on_device = block->on_device();
        found.managed = block->place == Place::managed;
        found.flags = block->flags;
        return found;
    }
    // In no block, but kernels may touch it: a variable of a module, or a mapping.
    const auto allocation = memory.allocation_at(address);
    if (!allocation) return std::nullopt;
    found.base = allocation->base;
    found.bytes = allocation->bytes;
    found.device = memory.device_at(address);
    found.on_device = true;
    return found;
}

CUcontext owner(const Memory& memory) {
    return as_handle<CUcontext>(memory.owner);
}

// A variable of a module is memory that programs may touch.
std::optional<cuda::ManagedMemory> managed_memory_at(CUdeviceptr address) {
    driver::Memory& memory = live().memory;
    if (const auto block = memory.find(address)) {
        if (block->place != Place::managed) return std::nullopt;
        return cuda::ManagedMemory{block->base, block->bytes, block->id};
    }
    const auto variable = memory.allocation_at(address);
    if (!variable || memory.addresses().find(address)) return std::nullopt;
    return cuda::ManagedMemory{variable->base, variable->bytes, 0};
}

void attach(CUdeviceptr, bool) {}  // host and kernels use the same bytes

MemoryInfo memory_info() {
    const DeviceMemory& space = live().memory.space(driver::working_context()->device);
    return {space.total_bytes() - space.used_bytes(), space.total_bytes()};
}

CUdeviceptr allocate(size_t bytes) {
    return live().memory.allocate(*driver::working_context(), bytes, Place::device);
}

Pitched allocate_pitched(size_t width, size_t rows, unsigned) {
    constexpr size_t kPitch = 512;
    require(width <= SIZE_MAX - kPitch);
    const size_t pitch = (width + kPitch - 1) / kPitch * kPitch;
    require(rows <= SIZE_MAX / pitch, CUDA_ERROR_OUT_OF_MEMORY);
    return {allocate(pitch * rows), pitch};
}

// A device address is an address of this process, so device memory is managed memory as it is.
CUdeviceptr allocate_managed(size_t bytes, bool) {
    return live().memory.allocate(*driver::working_context(), bytes, Place::managed);
}

// The memory is there at once, so all streams may use it; that it is freed waits for its stream.
CUdeviceptr allocate_in_stream(size_t bytes, CUmemoryPool pool, CUstream stream) {
    const auto context = working_stream(live(), stream)->context;
    return live().memory.allocate(*context, bytes, Place::pool,
                                  pool ? find_pool(pool) : live().current_pool(context->device));
}

bool freed_earlier(CUdeviceptr, bool) {
    return false;
}

void free(CUdeviceptr address) {
    driver::working_context();
    const Block block = live().memory.take_device(address);
    cuda::ManagedAdvice::get().forget(block.base);
    live().scheduler.drain_all();
    live().memory.release(block);
}

void free_in_stream(CUdeviceptr address, CUstream stream) {
    const auto queue = working_stream(live(), stream)->queue;
    driver::Memory& memory = live().memory;
    // Managed memory belongs to the host as well, which keeps no order of streams.
    const auto block = memory.find(address);
    require(block && block->place != Place::managed);
    auto body = [&memory, block = memory.take_device(address)] {
        memory.release(block);
        return CUDA_SUCCESS;
    };
    memory.freed_later(block->device,
                       live().scheduler.submit(queue, {.body = std::move(body), .always = true}), queue);
}

void* pin(CUdevice, size_t bytes, unsigned flags) {
    return live().memory.allocate_pinned(*driver::working_context(), bytes, flags);
}

void unpin(void* memory) {
    live().memory.release(live().memory.take_host(reinterpret_cast<uint64_t>(memory), Place::pinned));
}

void register_host(CUdevice, void* memory, size_t bytes, unsigned flags) {
    live().memory.register_host(*driver::working_context(), memory, bytes, flags);
}

void unregister_host(void* memory) {
    const auto base = reinterpret_cast<uint64_t>(memory);
    const auto block = live().memory.find(base);
    require(block && block->base == base && block->place == Place::registered,
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    live().memory.release(live().memory.take_host(base, Place::registered));
}

// Kernels see host memory under its own address.
CUdeviceptr device_pointer(void* host_memory) {
    return reinterpret_cast<CUdeviceptr>(host_memory);
}

Pool pool(CUmemoryPool pool) {
    const auto found = find_pool(pool);
    const int device = found->device;
    return {
        .device = device, .max_bytes = found->max_bytes, .is_default = found == live().default_pool(device)};
}

CUmemoryPool make_pool(CUdevice device, uint64_t max_bytes) {
    return as_handle<CUmemoryPool>(live().handles.add(std::make_shared<driver::Pool>(device, max_bytes)));
}

void end_pool(CUmemoryPool pool) {
    const auto ended = find_pool(pool);
    require(live().handles.remove(ended->handle));
    const int device = ended->device;
    if (ended == live().current_pool(device)) live().set_current_pool(device, live().default_pool(device));
}

CUmemoryPool default_pool(CUdevice device) {
    return as_handle<CUmemoryPool>(live().default_pool(device)->handle);
}

CUmemoryPool current_pool(CUdevice device) {
    return as_handle<CUmemoryPool>(live().current_pool(device)->handle);
}

void set_current_pool(CUdevice device, CUmemoryPool pool) {
    live().set_current_pool(device, find_pool(pool));
}

uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute) {
    return find_pool(pool)->attribute(attribute);
}

void set_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t value) {
    find_pool(pool)->set(attribute, value);
}

// Nothing is kept back, so there is nothing to trim.
void trim_pool(CUmemoryPool pool, uint64_t) {
    find_pool(pool);
}

// No device reaches another one's memory.
void set_pool_access(CUmemoryPool, CUdevice, bool granted) {
    require(!granted, CUDA_ERROR_INVALID_DEVICE);
}

CUdeviceptr reserve_addresses(size_t bytes, size_t alignment, CUdeviceptr wished) {
    return addresses().reserve(bytes, alignment, wished);
}

void free_addresses(CUdeviceptr base, size_t bytes) {
    addresses().free(base, bytes);
}

size_t granularity(CUdevice, bool) {
    return VirtualMemory::kGranularity;
}

CUmemGenericAllocationHandle create_memory(CUdevice device, size_t bytes) {
    return addresses().retain(live().handles, Physical::create(live().memory, device, bytes));
}

CUdevice device_of_memory(CUmemGenericAllocationHandle memory) {
    return find_physical(memory)->device;
}

CUmemGenericAllocationHandle retain_memory(CUdeviceptr mapped_at) {
    return addresses().retain(live().handles, mapping_at(mapped_at).physical);
}

void release_memory(CUmemGenericAllocationHandle memory) {
    addresses().release(live().handles, find_physical(memory));
}

void map_memory(CUdeviceptr base, size_t bytes, CUmemGenericAllocationHandle memory) {
    addresses().map(base, bytes, find_physical(memory));
}

void unmap_memory(CUdeviceptr base, size_t bytes) {
    addresses().unmap(base, bytes);
}

void set_access(CUdeviceptr base, size_t bytes, CUdevice device, bool granted) {
    addresses().set_access(base, bytes, device, granted);
}

uint32_t mapping_accessible_from(CUdeviceptr address) {
    const auto mapping = mapping_at(address);
    return mapping.accessible ? 1u << mapping.physical->device : 0;
}

}  // namespace front::platform
