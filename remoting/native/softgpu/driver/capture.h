// Where the streams and events of this driver meet graphs/capture.h. What these throw is what CUDA answers.
#pragma once

#include "graphs/capture.h"
#include "stream.h"

namespace softgpu::driver {

graphs::Stream as_captured(const Stream& stream);

inline uint64_t key_of(const Event& event) {
    return reinterpret_cast<uint64_t>(&event);
}

// True when the stream is captured, and what `make` gives has become a node of the graph. False when the work
// is to be done; the legacy default stream may not do any then.
template <class Make>
bool captured(const Stream& stream, Make&& make) {
    return graphs::any_capture() && graphs::captured(as_captured(stream), std::forward<Make>(make));
}

// Before what cannot be a node: waiting, asking.
inline void require_not_captured(const Stream& stream) {
    if (graphs::any_capture()) graphs::refuse_captured(as_captured(stream));
}

inline void require_not_captured(const Event& event) {
    if (graphs::any_captured_event()) graphs::require_not_captured_event(key_of(event));
}

}  // namespace softgpu::driver
