// Entry points: copies. Those without a stream work on the default stream and wait, except between device
// memory, where CUDA does not wait either.
#include "copy.h"
#include "driver.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

enum class Mode { wait, return_at_once };

// `make(context)` gives the copy; the addresses are checked in the stream's context.
template <class Make>
CUresult copy_call(CUstream handle, Mode mode, Make&& make) noexcept {
    return context_call([&](Context& context) {
        const auto stream = context.stream(handle);
        const Copy copy = make(*stream->context);
        const bool wait = mode == Mode::wait;
        submit_copy(*stream, copy, wait);
        return wait ? stream->context->status() : CUDA_SUCCESS;
    });
}

Copy flat(End to, End from, size_t bytes) {
    return {.to = to, .from = from, .width = bytes};
}

auto host_to_device(CUdeviceptr to, const void* from, size_t bytes) {
    return [=](Context& context) {
        return flat(device_end(context, to, bytes), host_end(context, from, bytes), bytes);
    };
}

auto device_to_host(void* to, CUdeviceptr from, size_t bytes) {
    return [=](Context& context) {
        return flat(host_end(context, to, bytes), device_end(context, from, bytes), bytes);
    };
}

auto device_to_device(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return [=](Context& context) {
        return flat(device_end(context, to, bytes), device_end(context, from, bytes), bytes);
    };
}

auto unified(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return [=](Context& context) {
        return flat(unified_end(context, to, bytes), unified_end(context, from, bytes), bytes);
    };
}

template <class Request>
auto described(const Request* request) {
    return [=](Context& context) {
        require(request != nullptr);
        return copy_of(context, *request);
    };
}

// Both contexts are on the one device, so this is a copy like others.
auto between_contexts(const CUDA_MEMCPY3D_PEER* request) {
    return [=](Context& context) {
        require(request != nullptr);
        const CUDA_MEMCPY3D_PEER& r = *request;
        CUDA_MEMCPY3D same{};
        same.srcXInBytes = r.srcXInBytes;
        same.srcY = r.srcY;
        same.srcZ = r.srcZ;
        same.srcMemoryType = r.srcMemoryType;
        same.srcHost = r.srcHost;
        same.srcDevice = r.srcDevice;
        same.srcPitch = r.srcPitch;
        same.srcHeight = r.srcHeight;
        same.dstXInBytes = r.dstXInBytes;
        same.dstY = r.dstY;
        same.dstZ = r.dstZ;
        same.dstMemoryType = r.dstMemoryType;
        same.dstHost = r.dstHost;
        same.dstDevice = r.dstDevice;
        same.dstPitch = r.dstPitch;
        same.dstHeight = r.dstHeight;
        same.WidthInBytes = r.WidthInBytes;
        same.Height = r.Height;
        same.Depth = r.Depth;
        return copy_of(context, same);
    };
}

}  // namespace

extern "C" {

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
    return copy_call(nullptr, Mode::wait, host_to_device(dstDevice, srcHost, ByteCount));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                              CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, host_to_device(dstDevice, srcHost, ByteCount));
}

CUresult cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    return copy_call(nullptr, Mode::wait, device_to_host(dstHost, srcDevice, ByteCount));
}

CUresult cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, device_to_host(dstHost, srcDevice, ByteCount));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    return copy_call(nullptr, Mode::return_at_once, device_to_device(dstDevice, srcDevice, ByteCount));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, device_to_device(dstDevice, srcDevice, ByteCount));
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    return copy_call(nullptr, Mode::wait, unified(dst, src, ByteCount));
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, unified(dst, src, ByteCount));
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                      CUcontext srcContext, size_t ByteCount) {
    return copy_call(nullptr, Mode::return_at_once, device_to_device(dstDevice, srcDevice, ByteCount));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, device_to_device(dstDevice, srcDevice, ByteCount));
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
    return copy_call(nullptr, Mode::wait, described(pCopy));
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) {
    return copy_call(nullptr, Mode::wait, described(pCopy));
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, described(pCopy));
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
    return copy_call(nullptr, Mode::wait, described(pCopy));
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, described(pCopy));
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
    return copy_call(nullptr, Mode::wait, between_contexts(pCopy));
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, between_contexts(pCopy));
}

// The attributes are hints about where the memory is and when the source may be read; the order of the stream
// satisfies all of them.
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes* attr,
                                     CUstream hStream) {
    return cuMemcpyAsync(dst, src, size, hStream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                               CUstream hStream) {
    return context_call([&](Context& context) {
        require(dsts != nullptr && srcs != nullptr && sizes != nullptr && count > 0);
        for (size_t i = 0; i < count; ++i) check(cuMemcpyAsync(dsts[i], srcs[i], sizes[i], hStream));
    });
}

CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                            CUstream hStream) {
    if (failIdx) *failIdx = SIZE_MAX;
    return cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}
}
