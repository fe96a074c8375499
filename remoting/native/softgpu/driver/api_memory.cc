// Entry points: memory of the device and memory of the host that kernels may touch.
#include "capture.h"
#include "driver.h"
#include "graphs/memory.h"
#include "managed_advice.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

constexpr size_t kPitch = 512;
constexpr unsigned kHostAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kHostRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                        CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

// The block of host memory that starts at or holds `p`.
Block host_block(Context& context, const void* p) {
    auto block = context.driver.memory.find(reinterpret_cast<uint64_t>(p));
    require(block && !block->on_device());
    return *block;
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
    return context_call([&](Context& context) {
        require(free != nullptr && total != nullptr);
        const DeviceMemory& space = context.driver.memory.space(context.device);
        *total = space.total_bytes();
        *free = space.total_bytes() - space.used_bytes();
    });
}

CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
    return context_call([&](Context& context) {
        require(dptr != nullptr);
        require_safe_in_captures();
        *dptr = context.driver.memory.allocate(context, bytesize, Place::device);
    });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes) {
    return context_call([&](Context& context) {
        require(dptr != nullptr && pPitch != nullptr && WidthInBytes > 0 && Height > 0);
        require(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16);
        require(WidthInBytes <= SIZE_MAX - kPitch);
        const size_t pitch = (WidthInBytes + kPitch - 1) / kPitch * kPitch;
        require(Height <= SIZE_MAX / pitch, CUDA_ERROR_OUT_OF_MEMORY);
        *dptr = context.driver.memory.allocate(context, pitch * Height, Place::device);
        *pPitch = pitch;
    });
}

CUresult cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
    return context_call([&](Context& context) {
        require(dptr != nullptr && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST));
        // A device address is an address of this process, so device memory is managed memory as it is.
        *dptr = context.driver.memory.allocate(context, bytesize, Place::managed);
    });
}

// Waits for the work that may use the memory, as CUDA's does.
CUresult cuMemFree_v2(CUdeviceptr dptr) {
    return context_call([&](Context& context) {
        if (dptr == 0) return;
        require_safe_in_captures();
        if (graphs::free_of_graph(dptr)) return;
        require(!Scheduler::in_callback(), CUDA_ERROR_NOT_PERMITTED);
        const Block block = context.driver.memory.take_device(dptr);
        cuda::ManagedAdvice::get().forget(block.base);
        context.driver.scheduler.drain_all();
        context.driver.memory.release(block);
    });
}

CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
    return context_call([&](Context& context) {
        require(pp != nullptr && (Flags & ~kHostAllocFlags) == 0);
        *pp = context.driver.memory.allocate_pinned(context, bytesize, Flags);
    });
}

CUresult cuMemAllocHost_v2(void** pp, size_t bytesize) {
    return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult cuMemFreeHost(void* p) {
    return context_call([&](Context& context) {
        if (!p) return;
        require(!Scheduler::in_callback(), CUDA_ERROR_NOT_PERMITTED);
        Memory& memory = context.driver.memory;
        memory.release(memory.take_host(reinterpret_cast<uint64_t>(p), Place::pinned));
    });
}

CUresult cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
    return context_call([&](Context& context) {
        require((Flags & ~kHostRegisterFlags) == 0);
        context.driver.memory.register_host(context, p, bytesize, Flags);
    });
}

CUresult cuMemHostUnregister(void* p) {
    return context_call([&](Context& context) {
        require(!Scheduler::in_callback(), CUDA_ERROR_NOT_PERMITTED);
        Memory& memory = context.driver.memory;
        const auto block = memory.find(reinterpret_cast<uint64_t>(p));
        require(block && block->place == Place::registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        memory.release(memory.take_host(reinterpret_cast<uint64_t>(p), Place::registered));
    });
}

// Kernels see host memory under its own address.
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
    return context_call([&](Context& context) {
        require(pdptr != nullptr && Flags == 0);
        host_block(context, p);
        *pdptr = reinterpret_cast<CUdeviceptr>(p);
    });
}

CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
    return context_call([&](Context& context) {
        require(pFlags != nullptr);
        *pFlags = host_block(context, p).flags | CU_MEMHOSTALLOC_DEVICEMAP;
    });
}
}
