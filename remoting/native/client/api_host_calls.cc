// Entry points: functions of the program that a stream calls.
#include "call.h"
#include "capture.h"
#include "host_calls.h"
#include "session.h"

using namespace client;

namespace {

CUresult enqueue(CUstream stream, bool per_thread, const HostFunction& function) {
    Call call;
    if (CUresult error = call.begin_for(stream)) return error;
    wire::HostCall message{};
    if (!call.stream(stream, per_thread, message.stream)) return CUDA_ERROR_INVALID_HANDLE;
    message.ticket = HostCalls::get().add(function, message.stream);
    if (!message.ticket) return CUDA_ERROR_OPERATING_SYSTEM;
    message.with_status = function.callback != nullptr;
    const CUresult result = call.post(wire::kOpHostCall, 0, &message, sizeof message);
    if (result != CUDA_SUCCESS) HostCalls::get().drop(message.ticket);
    return result;
}

CUresult host_function(CUstream stream, CUhostFn fn, void* data, bool per_thread) {
    if (!fn) return CUDA_ERROR_INVALID_VALUE;
    auto node = [&] { return graphs::Params(graphs::HostParams{fn, data}); };
    if (auto answer = captured(stream, per_thread, node)) return *answer;
    return enqueue(stream, per_thread, {.function = fn, .data = data});
}

CUresult stream_callback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags,
                         bool per_thread) {
    if (!callback || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = refuse_captured(stream, per_thread)) return error;
    return enqueue(stream, per_thread, {.callback = callback, .stream = stream, .data = data});
}

// How a thread waits for the next function is the worker's business here.
bool valid_mode(unsigned mode) {
    return mode == CU_HOST_TASK_BLOCKING || mode == CU_HOST_TASK_SPINWAIT;
}

}  // namespace

extern "C" {

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
    return host_function(hStream, fn, userData, false);
}
CUresult cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void* userData) {
    return host_function(hStream, fn, userData, true);
}

CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void* userData, unsigned int syncMode) {
    return valid_mode(syncMode) ? host_function(hStream, fn, userData, false) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuLaunchHostFunc_v2_ptsz(CUstream hStream, CUhostFn fn, void* userData, unsigned int syncMode) {
    return valid_mode(syncMode) ? host_function(hStream, fn, userData, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                             unsigned int flags) {
    return stream_callback(hStream, callback, userData, flags, false);
}
CUresult cuStreamAddCallback_ptsz(CUstream hStream, CUstreamCallback callback, void* userData,
                                  unsigned int flags) {
    return stream_callback(hStream, callback, userData, flags, true);
}
}
