// Entry points: initialisation, and what is set or waited for of a context.
#include "capture.h"
#include "driver.h"
#include "session.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

// Waits for all work of the context; what it answers is the first error of that work.
CUresult synchronize(Context& context) {
    if (graphs::any_capture()) graphs::refuse_context(context.id);
    graphs::refuse_unsafe();
    context.driver.scheduler.drain(context.group);
    return answer_of_wait(context.status());
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int Flags) {
    return Flags == 0 ? Driver::initialize() : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxSynchronize(void) {
    return context_call([](Context& context) { return synchronize(context); });
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
    return driver_call([&](Driver& driver) {
        const auto context = driver.context(ctx);
        check(context->status());
        return synchronize(*context);
    });
}

CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
    return context_call([&](Context& context) {
        require(pvalue != nullptr);
        *pvalue = context.limit(limit);
    });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    return context_call([&](Context& context) { context.set_limit(limit, value); });
}
}
