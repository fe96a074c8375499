// Entry points: streams, host callbacks, and what is asked about stream capture.
#include "driver.h"
#include "thread_state.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

// Calls `body(context, stream)` for a stream handle; for the default streams the thread needs a context.
template <class Body>
CUresult stream_call(CUstream handle, Body&& body) noexcept {
    return driver_call([&](Driver& driver) {
        const auto value = reinterpret_cast<uint64_t>(handle);
        const bool is_default = value == 0 || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
        const auto stream =
            is_default ? driver.current()->stream(handle) : driver.handles.get<Stream>(handle);
        check(stream->context->status());
        if constexpr (std::is_void_v<std::invoke_result_t<Body, Context&, Stream&>>) {
            body(*stream->context, *stream);
            return CUDA_SUCCESS;
        } else {
            return static_cast<CUresult>(body(*stream->context, *stream));
        }
    });
}

CUresult create(CUstream* phStream, unsigned flags, int priority) {
    return context_call([&](Context& context) {
        require(phStream != nullptr && (flags & ~CU_STREAM_NON_BLOCKING) == 0);
        const int clamped = priority > 0 ? 0 : priority < kGreatestPriority ? kGreatestPriority : priority;
        const auto stream = context.new_stream(flags, clamped);
        context.driver.handles.add(stream);
        context.own(stream->handle);
        *phStream = as_handle<CUstream>(stream->handle);
    });
}

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
    return create(phStream, Flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
    return create(phStream, flags, priority);
}

// Returns at once; what was submitted still runs.
CUresult cuStreamDestroy_v2(CUstream hStream) {
    return driver_call([&](Driver& driver) {
        const auto stream = driver.handles.get<Stream>(hStream);
        require(driver.handles.remove(stream->handle), CUDA_ERROR_INVALID_HANDLE);
        stream->context->disown(stream->handle);
    });
}

CUresult cuStreamDestroy(CUstream hStream) {
    return cuStreamDestroy_v2(hStream);
}

CUresult cuStreamSynchronize(CUstream hStream) {
    return stream_call(hStream, [](Context& context, Stream& stream) {
        context.driver.scheduler.wait(context.driver.scheduler.last(stream.queue), stream.queue);
        return context.status();
    });
}

CUresult cuStreamQuery(CUstream hStream) {
    return stream_call(hStream, [](Context& context, Stream& stream) {
        return context.driver.scheduler.last(stream.queue) ? CUDA_ERROR_NOT_READY : context.status();
    });
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        require((Flags & ~CU_EVENT_WAIT_EXTERNAL) == 0);
        const auto record = context.driver.handles.get<Event>(hEvent)->record();
        if (!record.completion || record.completion->done()) return;
        context.driver.scheduler.submit(stream.queue, {.after = {record.completion}});
    });
}

CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
    return stream_call(hStream, [&](Context&, Stream& stream) {
        require(priority != nullptr);
        *priority = stream.queue->priority;
    });
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
    return stream_call(hStream, [&](Context&, Stream& stream) {
        require(flags != nullptr);
        *flags = stream.flags;
    });
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
    return stream_call(hStream, [&](Context&, Stream& stream) {
        require(streamId != nullptr);
        *streamId = stream.id;
    });
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
    return stream_call(hStream, [&](Context&, Stream&) {
        require(device != nullptr);
        *device = 0;
    });
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
    return stream_call(hStream, [&](Context& context, Stream&) {
        require(pctx != nullptr);
        *pctx = as_handle<CUcontext>(context.handle);
    });
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
    if (pGreenCtx) *pGreenCtx = nullptr;
    return cuStreamGetCtx(hStream, pCtx);
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        require(fn != nullptr);
        auto call = [fn, userData] {
            fn(userData);
            return CUDA_SUCCESS;
        };
        context.driver.scheduler.submit(stream.queue, {.body = call, .calls_program = true});
    });
}

// Unlike a host function it is called also when the context has failed, and is told.
CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                             unsigned int flags) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        require(callback != nullptr && flags == 0);
        auto call = [callback, hStream, userData, group = context.group] {
            callback(hStream, group->status(), userData);
            return CUDA_SUCCESS;
        };
        context.driver.scheduler.submit(stream.queue, {.body = call, .always = true, .calls_program = true});
    });
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
    return stream_call(hStream, [&](Context& context, Stream&) {
        const auto block = context.driver.memory.find(dptr);
        require(block && block->place == Place::managed);
    });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    return driver_call([&](Driver&) {
        require(mode != nullptr && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
        auto& current = thread_state().capture_mode;
        const auto old = static_cast<CUstreamCaptureMode>(current);
        current = *mode;
        *mode = old;
    });
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    return stream_call(hStream, [&](Context&, Stream&) {
        require(captureStatus != nullptr);
        *captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
    });
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out, size_t* numDependencies_out) {
    if (id_out) *id_out = 0;
    if (graph_out) *graph_out = nullptr;
    if (dependencies_out) *dependencies_out = nullptr;
    if (numDependencies_out) *numDependencies_out = 0;
    return cuStreamIsCapturing(hStream, captureStatus_out);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out, const CUgraphEdgeData** edgeData_out,
                                   size_t* numDependencies_out) {
    if (edgeData_out) *edgeData_out = nullptr;
    return cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                                     numDependencies_out);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                cuuint64_t* id_out) {
    return cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr);
}
}
