// cuMemAdvise, cuMemPrefetchAsync and what can be asked of both. Managed memory belongs to one side at a time
// and moves as a whole when the other needs it (shared_memory.h), so advice changes nothing: it is kept here,
// to be asked for again.
#include "call.h"
#include "capture.h"
#include "context.h"
#include "managed_advice.h"
#include "memory_map.h"
#include "session.h"

namespace client {
namespace {

using cuda::ManagedAdvice;

// The managed memory, or variable, that all of the range lies in.
bool find(CUdeviceptr address, size_t bytes, cuda::ManagedMemory& found) {
    const auto memory = MemoryMap::get().find(address);
    if (!memory || (memory->kind != Memory::Kind::managed && !memory->global)) return false;
    found = {memory->base, memory->bytes, memory->id};
    return bytes > 0 && bytes <= memory->base + memory->bytes - address;
}

int devices() {
    return static_cast<int>(Session::get().devices().size());
}

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice, const CUmemLocation& location) {
    Call call;
    if (CUresult error = call.begin()) return error;
    cuda::ManagedMemory memory;
    if (!find(address, bytes, memory)) return CUDA_ERROR_INVALID_VALUE;
    return ManagedAdvice::get().advise(memory, address, bytes, advice, location, devices());
}

CUresult prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation& location, unsigned flags,
                  CUstream stream, bool per_thread) {
    Call call;
    if (CUresult error = call.begin_for(stream)) return error;
    uint64_t wire;
    if (!call.stream(stream, per_thread, wire)) return CUDA_ERROR_INVALID_HANDLE;
    cuda::ManagedMemory memory;
    if (flags != 0 || !find(address, bytes, memory)) return CUDA_ERROR_INVALID_VALUE;
    return ManagedAdvice::get().prefetch(memory, address, bytes, location, devices());
}

CUresult attributes(void** data, const size_t* sizes, const CUmem_range_attribute* attributes, size_t count,
                    CUdeviceptr address, size_t bytes) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    cuda::ManagedMemory memory;
    if (!data || !sizes || !attributes || count == 0 || !find(address, bytes, memory))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        const CUresult error =
            ManagedAdvice::get().attribute(memory, address, bytes, attributes[i], data[i], sizes[i]);
        if (error != CUDA_SUCCESS) return error;
    }
    return CUDA_SUCCESS;
}

// Managed memory moves as a whole and for the whole device, so a stream has nothing to attach it to.
CUresult attach(CUstream stream, CUdeviceptr address, unsigned flags, bool per_thread) {
    Call call;
    if (CUresult error = call.begin_for(stream)) return error;
    uint64_t wire;
    if (!call.stream(stream, per_thread, wire)) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult error = refuse_captured(stream, per_thread)) return error;
    const auto memory = MemoryMap::get().find(address);
    const bool managed = memory && memory->kind == Memory::Kind::managed;
    const bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
                       (flags == CU_MEM_ATTACH_SINGLE && wire > kPerThreadStreamHandle);
    return managed && known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace client

using namespace client;

extern "C" {

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
    return advise(devPtr, count, advice, cuda::location_of(device));
}
CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
    return advise(devPtr, count, advice, location);
}
CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    return prefetch(devPtr, count, cuda::location_of(dstDevice), 0, hStream, false);
}
CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    return prefetch(devPtr, count, cuda::location_of(dstDevice), 0, hStream, true);
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream hStream) {
    return prefetch(devPtr, count, location, flags, hStream, false);
}
CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                    unsigned int flags, CUstream hStream) {
    return prefetch(devPtr, count, location, flags, hStream, true);
}

CUresult cuMemRangeGetAttribute(void* data, size_t dataSize, CUmem_range_attribute attribute,
                                CUdeviceptr devPtr, size_t count) {
    return attributes(&data, &dataSize, &attribute, 1, devPtr, count);
}
CUresult cuMemRangeGetAttributes(void** data, size_t* dataSizes, CUmem_range_attribute* wanted,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count) {
    return attributes(data, dataSizes, wanted, numAttributes, devPtr, count);
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
    return attach(hStream, dptr, flags, false);
}
CUresult cuStreamAttachMemAsync_ptsz(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
    return attach(hStream, dptr, flags, true);
}
}
