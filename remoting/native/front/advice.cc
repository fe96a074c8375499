// Entry points: what a program says about managed memory, and asks. It moves nothing (cuda/managed_advice.h).
#include "graphs/capture.h"
#include "platform.h"

using namespace front;

namespace {

using cuda::ManagedAdvice;

// The managed memory, or variable, that all of the range lies in.
cuda::ManagedMemory managed(CUdeviceptr address, size_t bytes) {
    const auto found = platform::managed_memory_at(address);
    require(found && bytes > 0 && bytes <= found->base + found->bytes - address);
    return *found;
}

}  // namespace

extern "C" {

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
    return call([&] {
        platform::require_working_context();
        const cuda::ManagedMemory memory = managed(devPtr, count);
        return ManagedAdvice::get().advise(memory, devPtr, count, advice, location, platform::device_count());
    });
}
CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
    return cuMemAdvise_v2(devPtr, count, advice, cuda::location_of(device));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream hStream) {
    return call([&] {
        platform::require_stream(hStream);
        require(flags == 0);
        const cuda::ManagedMemory memory = managed(devPtr, count);
        return ManagedAdvice::get().prefetch(memory, devPtr, count, location, platform::device_count());
    });
}
CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    return cuMemPrefetchAsync_v2(devPtr, count, cuda::location_of(dstDevice), 0, hStream);
}

CUresult cuMemRangeGetAttributes(void** data, size_t* dataSizes, CUmem_range_attribute* attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count) {
    return call([&] {
        platform::require_working_context();
        require(data && dataSizes && attributes && numAttributes > 0);
        const cuda::ManagedMemory memory = managed(devPtr, count);
        for (size_t i = 0; i < numAttributes; ++i) {
            check(
                ManagedAdvice::get().attribute(memory, devPtr, count, attributes[i], data[i], dataSizes[i]));
        }
    });
}
CUresult cuMemRangeGetAttribute(void* data, size_t dataSize, CUmem_range_attribute attribute,
                                CUdeviceptr devPtr, size_t count) {
    return cuMemRangeGetAttributes(&data, &dataSize, &attribute, 1, devPtr, count);
}

// Nothing moves by streams, so the stream does not count; but the host may use what is attached while others
// run.
CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
    return call([&] {
        platform::require_stream(hStream);
        if (graphs::any_capture()) graphs::refuse_captured(graphs::platform::stream(hStream));
        const auto memory = platform::memory_at(dptr);
        require(memory && memory->managed);
        const bool made =
            reinterpret_cast<uint64_t>(hStream) > reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD);
        require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
                (flags == CU_MEM_ATTACH_SINGLE && made));
        platform::attach(memory->base, flags != CU_MEM_ATTACH_GLOBAL);
    });
}
}
