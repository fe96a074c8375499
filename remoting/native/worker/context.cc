// What concerns a whole context of the client.
#include "handlers.h"
#include "software.h"

namespace worker {

CUresult handle_end_context(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    // What runs may use what is freed. On the client's side the context is gone already, so an error of the
    // work is told, and all is given back whatever it is.
    const CUresult result = context.session().own_work.wait(context.device());
    uint64_t owned;
    while (!payload.finished()) {
        if (!payload.take(owned)) return kMalformed;
        context.session().give_back(owned);
    }
    return result;
}

// What work has met is told by the program's own calls.
CUresult handle_wait_for_device(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    if (!payload.finished()) return kMalformed;
    const NewsKept kept(context.driver());
    return run_cuCtxSynchronize(context, 0, {}, reply);
}

CUresult handle_context_event(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::ContextEvent message;
    if (!payload.take(message) || !payload.finished()) return kMalformed;
    CUevent event;
    if (!context.event(message.event, event)) return CUDA_ERROR_INVALID_HANDLE;
    context.uses_default_stream(false);
    const CUcontext own = context.worker().devices[context.device()].context;
    return message.wait ? invoke(context.driver().cuCtxWaitEvent, own, event)
                        : invoke(context.driver().cuCtxRecordEvent, own, event);
}

}  // namespace worker
