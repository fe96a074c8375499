// Entry points: allocation in stream order, and memory pools.
#include "capture.h"
#include "driver.h"
#include "graphs/arguments.h"
#include "pool.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

std::shared_ptr<Pool> find_pool(Driver& driver, CUmemoryPool handle) {
    return driver.handles.get<Pool>(handle, CUDA_ERROR_INVALID_VALUE);
}

CUmemoryPool handle_of(const Pool& pool) {
    return as_handle<CUmemoryPool>(pool.handle);
}

// Only memory of the device comes in pools.
void require_device_location(const CUmemLocation* location) {
    require(location != nullptr);
    require(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    require_device(location->id);
}

// The memory is there at once, so all streams may use it; that it is freed waits for its stream.
CUresult allocate(CUdeviceptr* dptr, size_t bytes, const std::shared_ptr<Pool>& pool, CUstream stream) {
    return context_call([&](Context& context) {
        require(dptr != nullptr);
        const auto in_order_of = context.stream(stream);
        if (captured(*in_order_of, [&] { return graphs::alloc_params(bytes, dptr); })) return;
        const auto owner = in_order_of->context;
        *dptr = owner->driver.memory.allocate(*owner, bytes, Place::pool,
                                              pool ? pool : owner->driver.current_pool(owner->device));
    });
}

template <class Body>
CUresult pool_call(CUmemoryPool handle, Body&& body) noexcept {
    return driver_call(
        [&](Driver& driver) { return static_cast<CUresult>(body(*find_pool(driver, handle))); });
}

}  // namespace

extern "C" {

CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
    return allocate(dptr, bytesize, nullptr, hStream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    return driver_call(
        [&](Driver& driver) { return allocate(dptr, bytesize, find_pool(driver, pool), hStream); });
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    return context_call([&](Context& context) {
        if (dptr == 0) return;
        const auto stream = context.stream(hStream);
        if (captured(*stream, [&] { return graphs::free_params(dptr); })) return;
        if (graphs::free_of_graph(dptr)) return;
        Memory& memory = context.driver.memory;
        // Managed memory belongs to the host as well, which keeps no order of streams.
        const auto block = memory.find(dptr);
        require(block && block->place != Place::managed);
        const int device = block->device;
        auto free = [&memory, block = memory.take_device(dptr)] {
            memory.release(block);
            return CUDA_SUCCESS;
        };
        const auto& queue = stream->queue;
        memory.freed_later(
            device, context.driver.scheduler.submit(queue, {.body = std::move(free), .always = true}), queue);
    });
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
    return driver_call([&](Driver& driver) {
        require(pool != nullptr && poolProps != nullptr);
        require(poolProps->allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
        require(poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
        require_device_location(&poolProps->location);
        const auto fresh = std::make_shared<Pool>(
            Pool::Settings{.device = poolProps->location.id, .max_bytes = poolProps->maxSize});
        driver.handles.add(fresh);
        *pool = handle_of(*fresh);
    });
}

// What was allocated from it stays until it is freed.
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    return driver_call([&](Driver& driver) {
        const auto object = find_pool(driver, pool);
        const int device = object->settings.device;
        require(object != driver.default_pool(device));
        require(driver.handles.remove(object->handle));
        if (object == driver.current_pool(device)) {
            driver.set_current_pool(device, driver.default_pool(device));
        }
    });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    return pool_call(pool, [&](Pool& object) {
        require(value != nullptr);
        return object.get(attr, value);
    });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    return pool_call(pool, [&](Pool& object) {
        require(value != nullptr);
        return object.set(attr, value);
    });
}

// Nothing is kept back, so there is nothing to trim.
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    return pool_call(pool, [](Pool&) { return CUDA_SUCCESS; });
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
    return pool_call(pool, [&](Pool&) {
        require(map != nullptr || count == 0);
        for (size_t i = 0; i < count; ++i) {
            require(map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE);
            require_device(map[i].location.id);
            require(map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        }
        return CUDA_SUCCESS;
    });
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
    return pool_call(memPool, [&](Pool& pool) {
        require(flags != nullptr && location != nullptr);
        const bool ours =
            location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == pool.settings.device;
        *flags = ours ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
        return CUDA_SUCCESS;
    });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require(pool_out != nullptr);
        require_device(dev);
        *pool_out = handle_of(*driver.default_pool(dev));
    });
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require(pool != nullptr);
        require_device(dev);
        *pool = handle_of(*driver.current_pool(dev));
    });
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    return driver_call([&](Driver& driver) {
        require_device(dev);
        driver.set_current_pool(dev, find_pool(driver, pool));
    });
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location, CUmemAllocationType type) {
    return driver_call([&](Driver& driver) {
        require(pool_out != nullptr);
        require(type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
        require_device_location(location);
        *pool_out = handle_of(*driver.default_pool(location->id));
    });
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
    return driver_call([&](Driver& driver) {
        require(pool != nullptr);
        require(type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
        require_device_location(location);
        *pool = handle_of(*driver.current_pool(location->id));
    });
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
    return driver_call([&](Driver& driver) {
        require(type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
        require_device_location(location);
        driver.set_current_pool(location->id, find_pool(driver, pool));
    });
}
}
