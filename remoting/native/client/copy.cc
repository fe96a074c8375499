// Copies between host and device. What goes in is posted: the bytes have left the program's memory when the
// call returns. What comes back is waited for by the call itself, in the order of its stream.
#include "call.h"
#include "calls_wire.h"
#include "memory_map.h"

namespace client {
namespace {

CUresult to_device(CUdeviceptr to, const void* from, size_t bytes, CUstream stream, bool per_thread,
                   bool whole) {
    Call call;
    if (CUresult error = call.begin()) return error;
    uint64_t on = 0;
    if (!call.stream(stream, per_thread, on)) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
    call.uses_memory();
    return call.copy_in(to, from, bytes, on, whole);
}

CUresult to_host(void* to, CUdeviceptr from, size_t bytes, CUstream stream, bool per_thread) {
    Call call;
    if (CUresult error = call.begin()) return error;
    uint64_t on = 0;
    if (!call.stream(stream, per_thread, on)) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
    call.uses_memory();
    const CUresult result = call.copy_out(to, from, bytes, on);
    if (result == CUDA_SUCCESS) call.results_visible();
    return result;
}

// Whether an address is the device's: memory that the program has there, managed memory included.
bool on_device(CUdeviceptr address) {
    const auto memory = MemoryMap::get().find(address);
    return memory && memory->kind != Memory::Kind::pinned;
}

// cuMemcpy: the addresses say which way.
CUresult any_way(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream, bool per_thread,
                 bool whole) {
    const bool into = on_device(dst), out_of = on_device(src);
    if (into && !out_of)
        return to_device(dst, reinterpret_cast<const void*>(src), bytes, stream, per_thread, whole);
    if (!into && out_of) return to_host(reinterpret_cast<void*>(dst), src, bytes, stream, per_thread);
    if (!into) return CUDA_ERROR_INVALID_VALUE;
    return per_thread ? cuMemcpyDtoDAsync_v2_ptsz(dst, src, bytes, stream)
                      : cuMemcpyDtoDAsync_v2(dst, src, bytes, stream);
}

}  // namespace
}  // namespace client

using namespace client;

extern "C" {

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
    return to_device(dstDevice, srcHost, ByteCount, nullptr, false, true);
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
    return to_device(dstDevice, srcHost, ByteCount, nullptr, true, true);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                              CUstream hStream) {
    return to_device(dstDevice, srcHost, ByteCount, hStream, false, false);
}
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                   CUstream hStream) {
    return to_device(dstDevice, srcHost, ByteCount, hStream, true, false);
}

CUresult cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    return to_host(dstHost, srcDevice, ByteCount, nullptr, false);
}
CUresult cuMemcpyDtoH_v2_ptds(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    return to_host(dstHost, srcDevice, ByteCount, nullptr, true);
}
CUresult cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return to_host(dstHost, srcDevice, ByteCount, hStream, false);
}
CUresult cuMemcpyDtoHAsync_v2_ptsz(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return to_host(dstHost, srcDevice, ByteCount, hStream, true);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    return any_way(dst, src, ByteCount, nullptr, false, true);
}
CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    return any_way(dst, src, ByteCount, nullptr, true, true);
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    return any_way(dst, src, ByteCount, hStream, false, false);
}
CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    return any_way(dst, src, ByteCount, hStream, true, false);
}
}
