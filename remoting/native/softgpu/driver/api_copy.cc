// Entry points: flat copies, and what front/copy.cc has made of the others. Those without a stream work on
// the default stream and wait, except between device memory, where CUDA does not wait either.
#include "copy.h"
#include "driver.h"
#include "front/platform.h"
#include "session.h"

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

// A flat copy between contexts, which must exist.
auto between(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
    return [=](Context& context) {
        require(to_context && from_context, CUDA_ERROR_INVALID_CONTEXT);
        context.driver.context(to_context);
        context.driver.context(from_context);
        return device_to_device(to, from, bytes)(context);
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
    return copy_call(nullptr, Mode::return_at_once,
                     between(dstDevice, dstContext, srcDevice, srcContext, ByteCount));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream) {
    return copy_call(hStream, Mode::return_at_once,
                     between(dstDevice, dstContext, srcDevice, srcContext, ByteCount));
}
}

CUresult front::platform::copy(const cuda::CopyRequest& request, CUstream stream, Wait wait) {
    return copy_call(stream, wait == Wait::yes ? Mode::wait : Mode::return_at_once,
                     [&](driver::Context& context) { return copy_of(context, request); });
}
