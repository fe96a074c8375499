// Entry points: allocating and freeing memory of devices, in the order of streams too, and pinned memory of
// the host.
#include "capture.h"
#include "graphs/arguments.h"
#include "placement.h"

using namespace front;

namespace {

// With null for the pool that is current on the stream's device.
CUresult allocate_in_stream(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return call([&] {
        require(out && bytes > 0);
        if (captured(stream, [&] { return graphs::alloc_params(bytes, out); })) return;
        *out = platform::allocate_in_stream(bytes, pool, stream);
    });
}

// Whether it was memory that a graph has, and is free now. `check` refuses the call.
template <class Check>
bool freed_of_graph(CUdeviceptr address, Check&& check) {
    if (!graphs::find_allocation(address)) return false;
    check();
    return graphs::free_of_graph(address);  // the graph may have gone meanwhile, and the memory with it
}

// Memory of the host that holds the address.
Memory host_memory(const void* address) {
    const auto memory = platform::memory_at(reinterpret_cast<CUdeviceptr>(address));
    require(memory && !memory->on_device);
    return *memory;
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
    return call([&] {
        require(free && total);
        const MemoryInfo info = platform::memory_info();
        *free = info.free;
        *total = info.total;
    });
}

CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
    return call([&] {
        require(dptr && bytesize > 0);
        refuse_in_captures();
        *dptr = platform::allocate(bytesize);
    });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes) {
    return call([&] {
        require(dptr && pPitch && WidthInBytes > 0 && Height > 0);
        require(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16);
        refuse_in_captures();
        const Pitched memory = platform::allocate_pitched(WidthInBytes, Height, ElementSizeBytes);
        *dptr = memory.address;
        *pPitch = memory.pitch;
    });
}

CUresult cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
    return call([&] {
        require(dptr && bytesize > 0 && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST));
        refuse_in_captures();
        *dptr = platform::allocate_managed(bytesize, flags == CU_MEM_ATTACH_HOST);
    });
}

// Waits for the work that may use the memory, as CUDA's does.
CUresult cuMemFree_v2(CUdeviceptr dptr) {
    return call([&] {
        if (!dptr) {
            platform::require_working_context();
            return;
        }
        if (platform::freed_earlier(dptr, false)) return;
        refuse_in_captures();
        if (!freed_of_graph(dptr, platform::require_working_context)) platform::free(dptr);
    });
}

CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
    return allocate_in_stream(dptr, bytesize, nullptr, hStream);
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    return pool ? allocate_in_stream(dptr, bytesize, pool, hStream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    return call([&] {
        const auto check_stream = [&] { platform::require_stream(hStream); };
        if (!dptr) return check_stream();
        if (platform::freed_earlier(dptr, true)) return;
        if (captured(hStream, [&] { return graphs::free_params(dptr); })) return;
        if (!freed_of_graph(dptr, check_stream)) platform::free_in_stream(dptr, hStream);
    });
}

CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
    return call([&] {
        const CUdevice device = platform::require_working_context();
        constexpr unsigned kKnown =
            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
        require(pp && bytesize > 0 && (Flags & ~kKnown) == 0);
        *pp = platform::pin(device, bytesize, Flags);
    });
}
CUresult cuMemAllocHost_v2(void** pp, size_t bytesize) {
    return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult cuMemFreeHost(void* p) {
    return permitted_call([&] { platform::unpin(p); });
}

CUresult cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
    return call([&] {
        const CUdevice device = platform::require_working_context();
        constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
        require(p && bytesize > 0 && bytesize <= UINT64_MAX - reinterpret_cast<uint64_t>(p));
        require((Flags & ~kKnown) == 0);
        require_done(!(Flags & CU_MEMHOSTREGISTER_IOMEMORY), "cuMemHostRegister of memory of other hardware");
        static_assert(CU_MEMHOSTREGISTER_PORTABLE == CU_MEMHOSTALLOC_PORTABLE &&
                      CU_MEMHOSTREGISTER_DEVICEMAP == CU_MEMHOSTALLOC_DEVICEMAP);
        const unsigned kept = Flags & (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        platform::register_host(device, p, bytesize, kept);
    });
}
CUresult cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
    return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void* p) {
    return permitted_call([&] { platform::unregister_host(p); });
}

CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
    return call([&] {
        require(pFlags != nullptr);
        *pFlags = host_memory(p).flags | CU_MEMHOSTALLOC_DEVICEMAP;
    });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
    return call([&] {
        platform::require_working_context();
        require(pdptr && Flags == 0);
        host_memory(p);
        *pdptr = platform::device_pointer(p);
    });
}
}
