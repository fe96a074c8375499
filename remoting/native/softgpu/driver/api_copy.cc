// Entry points: copies. Those without a stream work on the default stream and wait, except between device
// memory, where CUDA does not wait either.
#include "copy.h"
#include "copy_batch.h"
#include "driver.h"
#include "session.h"
#include "thread_state.h"

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
        return wait ? answer_of_wait(stream->context->status()) : CUDA_SUCCESS;
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

auto two_dimensions(const CUDA_MEMCPY2D* given) {
    return [=](Context& context) {
        cuda::CopyRequest request;
        check(cuda::read_copy_2d(given, request));
        return copy_of(context, request);
    };
}

// Copies between contexts among them: all contexts are on the one device.
template <class Given>
auto three_dimensions(const Given* given) {
    return [=](Context& context) {
        cuda::CopyRequest request;
        check(cuda::read_copy_3d(given, request));
        return copy_of(context, request);
    };
}

// A flat copy between contexts, which must exist.
auto between(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
    return [=](Context& context) {
        require(to_context && from_context, CUDA_ERROR_INVALID_CONTEXT);
        context.driver.context(to_context);
        context.driver.context(from_context);
        return device_to_device(to, from, bytes)(context);
    };
}

// As part of a batch.
CUresult copy_at_once(const cuda::CopyRequest& request, CUstream stream) {
    return copy_call(stream, Mode::return_at_once,
                     [&](Context& context) { return copy_of(context, request); });
}

bool is_legacy(CUstream stream) {
    return stream == CU_STREAM_LEGACY || (!stream && !thread_state().per_thread_default);
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
    return copy_call(nullptr, Mode::return_at_once,
                     between(dstDevice, dstContext, srcDevice, srcContext, ByteCount));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once,
                     between(dstDevice, dstContext, srcDevice, srcContext, ByteCount));
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
    return copy_call(nullptr, Mode::wait, two_dimensions(pCopy));
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) {
    return copy_call(nullptr, Mode::wait, two_dimensions(pCopy));
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, two_dimensions(pCopy));
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
    return copy_call(nullptr, Mode::wait, three_dimensions(pCopy));
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, three_dimensions(pCopy));
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
    return copy_call(nullptr, Mode::wait, three_dimensions(pCopy));
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once, three_dimensions(pCopy));
}

CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes* attr,
                                     CUstream hStream) {
    if (!attr || !cuda::known_order(attr->srcAccessOrder)) return CUDA_ERROR_INVALID_VALUE;
    return cuMemcpyAsync(dst, src, size, hStream);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                            CUstream hStream) {
    const cuda::CopyBatch batch{dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs};
    size_t failed = cuda::kWholeBatch;
    CUresult result = cuda::check_batch(batch, is_legacy(hStream));
    if (result == CUDA_SUCCESS) {
        result = cuda::each_copy(
            batch, failed, [&](const cuda::CopyRequest& request) { return copy_at_once(request, hStream); });
    }
    if (failIdx) *failIdx = failed;
    return result;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                               CUstream hStream) {
    return cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, nullptr, hStream);
}

CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                              unsigned long long flags, CUstream hStream) {
    size_t failed = cuda::kWholeBatch;
    const CUresult result =
        cuda::each_copy_3d(opList, numOps, flags, is_legacy(hStream), failed,
                           [&](const cuda::CopyRequest& request) { return copy_at_once(request, hStream); });
    if (failIdx) *failIdx = failed;
    return result;
}

CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags,
                                 CUstream hStream) {
    return cuMemcpy3DBatchAsync(numOps, opList, nullptr, flags, hStream);
}

CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags,
                                       CUstream hStream) {
    size_t failed;
    return cuda::each_copy_3d(op, 1, flags, false, failed, [&](const cuda::CopyRequest& request) {
        return copy_at_once(request, hStream);
    });
}
}
