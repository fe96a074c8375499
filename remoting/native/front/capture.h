// What the front's calls ask of captures. While there are none, that is one look and nothing more. A call
// that is refused anyway leaves them alone: what CUDA answers without a capture stands before what ends one.
#pragma once

#include "graphs/capture.h"
#include "platform.h"

namespace front {

// The stream of a call that concerns captures.
inline graphs::Stream captured_stream(CUstream handle) {
    check(graphs::platform::ready());
    require_outside_callback();
    return graphs::platform::stream(handle);
}

// The event of a call that concerns captures.
inline Event captured_event(CUevent handle) {
    check(graphs::platform::ready());
    require_outside_callback();
    return platform::event(handle);
}

// Whether what `make` gives has become a node of a graph.
template <class Make>
bool captured(CUstream stream, Make&& make) {
    return graphs::any_capture() && graphs::captured(captured_stream(stream), std::forward<Make>(make));
}

// Before what is in the order of no stream, in the current context.
inline void refuse_in_captures() {
    if (!graphs::any_capture()) return;
    platform::require_working_context();
    graphs::refuse_unsafe();
}

}  // namespace front
