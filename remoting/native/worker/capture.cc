// The beginning and the end of a capture, which the session counts.
#include "handlers.h"

namespace worker {

CUresult run_cuStreamBeginCapture_v2(Context& context, uint8_t,
                                     const wire::cuStreamBeginCapture_v2_message& message, wire::Writer&) {
    CUstream stream;
    if (!context.stream(message.hStream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    const auto mode = static_cast<CUstreamCaptureMode>(message.mode);
    const CUresult result = invoke(context.driver().cuStreamBeginCapture_v2, stream, mode);
    if (result == CUDA_SUCCESS) context.session().captures.fetch_add(1);
    return result;
}

CUresult run_cuStreamEndCapture(Context& context, uint8_t, const wire::cuStreamEndCapture_message& message,
                                wire::Writer&) {
    if (!context.may_add_graph(message.phGraph)) return kMalformed;
    CUstream stream;
    if (!context.stream(message.hStream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    const bool capturing = context.captures(stream);
    CUgraph graph = nullptr;
    const CUresult result = invoke(context.driver().cuStreamEndCapture, stream, &graph);
    if (capturing && !context.captures(stream)) context.session().captures.fetch_sub(1);
    return result == CUDA_SUCCESS ? context.add_graph(message.phGraph, graph) : result;
}

}  // namespace worker
