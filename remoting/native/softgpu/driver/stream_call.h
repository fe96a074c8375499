// The frame of entry points that work on one stream.
#pragma once

#include "driver.h"

namespace softgpu::driver {

// Calls `body(context, stream)` for a stream handle; for the default streams the thread needs a context.
template <class Body>
CUresult stream_call(CUstream handle, Body&& body) noexcept {
    return driver_call([&](Driver& driver) {
        require(!Scheduler::in_callback(), CUDA_ERROR_NOT_PERMITTED);
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

}  // namespace softgpu::driver
