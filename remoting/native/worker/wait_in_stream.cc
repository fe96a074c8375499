// A wait for all that an operation of the stream would come after. More than the stream's synchronisation: an
// operation of the default stream comes after those of all blocking streams.
#include "handlers.h"

namespace worker {

CUresult handle_wait_in_stream(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    uint64_t handle = 0;
    if (!payload.take(handle) || !payload.finished()) return kMalformed;
    CUstream stream;
    if (!context.stream(handle, stream)) return CUDA_ERROR_INVALID_HANDLE;
    const Driver& driver = context.driver();
    CUevent here = nullptr;
    if (CUresult error = invoke(driver.cuEventCreate, &here, unsigned{CU_EVENT_DISABLE_TIMING})) return error;
    CUresult result = invoke(driver.cuEventRecord, here, stream);
    if (result == CUDA_SUCCESS) result = invoke(driver.cuEventSynchronize, here);
    invoke(driver.cuEventDestroy_v2, here);
    return result;
}

}  // namespace worker
