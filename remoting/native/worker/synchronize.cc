// Waits for all of the program's work, or all that its default stream comes after. In CUDA a process has a
// context of its own; here the sessions of a lease share one a GPU, and what others run need not end. Who is
// alone asks the driver.
#include "handlers.h"

namespace worker {
namespace {

bool is_alone(const Context& context) {
    return context.worker().status.sessions.load() <= 1;
}

bool is_legacy(uint64_t stream) {
    return stream <= reinterpret_cast<uint64_t>(CU_STREAM_LEGACY);
}

// What a wait that has ended tells the program besides: an event that was never recorded is done.
CUresult news(const Context& context) {
    const Driver& driver = context.driver();
    CUevent none = nullptr;
    if (CUresult error = invoke(driver.cuEventCreate, &none, unsigned{CU_EVENT_DISABLE_TIMING})) return error;
    const CUresult result = invoke(driver.cuEventQuery, none);
    invoke(driver.cuEventDestroy_v2, none);
    return result;
}

CUresult own_work(const Context& context, OwnWork::Part part, OwnWork::Look look) {
    const CUresult result = context.session().own_work.look(context.device(), part, look);
    return result == CUDA_SUCCESS ? news(context) : result;
}

}  // namespace

CUresult run_cuCtxSynchronize(Context& context, uint8_t, const wire::cuCtxSynchronize_message&,
                              wire::Writer&) {
    if (is_alone(context)) return invoke(context.driver().cuCtxSynchronize);
    return own_work(context, OwnWork::Part::all, OwnWork::Look::wait);
}

CUresult run_cuStreamSynchronize(Context& context, uint8_t, const wire::cuStreamSynchronize_message& message,
                                 wire::Writer&) {
    CUstream stream;
    if (!context.stream(message.hStream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (!is_legacy(message.hStream) || is_alone(context))
        return invoke(context.driver().cuStreamSynchronize, stream);
    return own_work(context, OwnWork::Part::blocking, OwnWork::Look::wait);
}

CUresult run_cuStreamQuery(Context& context, uint8_t, const wire::cuStreamQuery_message& message,
                           wire::Writer&) {
    CUstream stream;
    if (!context.stream(message.hStream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (!is_legacy(message.hStream) || is_alone(context))
        return invoke(context.driver().cuStreamQuery, stream);
    return own_work(context, OwnWork::Part::blocking, OwnWork::Look::ask);
}

}  // namespace worker
