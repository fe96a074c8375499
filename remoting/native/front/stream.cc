// Entry points: streams, as they are made and asked what they are.
#include <algorithm>

#include "platform.h"

using namespace front;

namespace {

// Answers from what is known of the stream.
template <class Value, class Of>
CUresult answer(CUstream handle, Value* out, Of&& of) {
    return call([&] {
        const Stream stream = platform::stream(handle);
        require(out != nullptr);
        *out = of(stream);
    });
}

}  // namespace

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
    return call([&] {
        const CUdevice device = platform::require_working_context();
        require(phStream && (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) == 0);
        const auto known = platform::stream_priorities(device);
        *phStream = platform::make_stream(flags, std::clamp(priority, known.greatest, known.least));
    });
}
CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
    return cuStreamCreateWithPriority(phStream, Flags, 0);
}

// What was submitted still runs.
CUresult cuStreamDestroy_v2(CUstream hStream) {
    return permitted_call([&] { platform::end_stream(hStream); });
}
CUresult cuStreamDestroy(CUstream hStream) {
    return cuStreamDestroy_v2(hStream);
}

CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
    return answer(hStream, priority, [](const Stream& stream) { return stream.priority; });
}
CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
    return answer(hStream, flags, [](const Stream& stream) { return stream.flags; });
}
CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
    return answer(hStream, streamId, [](const Stream& stream) { return stream.number; });
}
CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
    return answer(hStream, device, [](const Stream& stream) { return stream.device; });
}
CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
    return answer(hStream, pctx, [](const Stream& stream) { return platform::owner(stream); });
}
CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
    if (pGreenCtx) *pGreenCtx = nullptr;  // there are none
    return cuStreamGetCtx(hStream, pCtx);
}
}
