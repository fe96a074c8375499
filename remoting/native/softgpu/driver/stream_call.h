// The frame of entry points that work on one stream.
#pragma once

#include "driver.h"

namespace softgpu::driver {

// What a program passes as a stream, of a context that has not failed. For the default streams the thread
// needs one. A function that a stream calls has no stream.
inline std::shared_ptr<Stream> working_stream(Driver& driver, CUstream handle) {
    require(!Scheduler::in_callback(), CUDA_ERROR_NOT_PERMITTED);
    const bool is_default = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    auto stream = is_default ? driver.current()->stream(handle) : driver.handles.get<Stream>(handle);
    check(stream->context->status());
    return stream;
}

// Calls `body(context, stream)` for it.
template <class Body>
CUresult stream_call(CUstream handle, Body&& body) noexcept {
    return driver_call([&](Driver& driver) {
        const auto stream = working_stream(driver, handle);
        if constexpr (std::is_void_v<std::invoke_result_t<Body, Context&, Stream&>>) {
            body(*stream->context, *stream);
            return CUDA_SUCCESS;
        } else {
            return static_cast<CUresult>(body(*stream->context, *stream));
        }
    });
}

}  // namespace softgpu::driver
