// Where this library's calls meet graphs/capture.h: before it does or sends something for a stream, a call
// asks here whether the stream is captured.
#pragma once

#include <optional>

#include "graphs/capture.h"

namespace client {

// What graph code makes of a stream's handle. Throws graphs::Failure.
graphs::Stream as_captured(CUstream handle, bool per_thread);

// The answer to a call whose work became a node (or could not); nothing when the work is to be done.
template <typename Make>
std::optional<CUresult> captured(CUstream stream, bool per_thread, Make make) {
    if (!graphs::any_capture()) return std::nullopt;
    bool taken = false;
    const CUresult error =
        graphs::guarded([&] { taken = graphs::captured(as_captured(stream, per_thread), make); });
    if (error != CUDA_SUCCESS) return error;
    return taken ? std::optional(CUDA_SUCCESS) : std::nullopt;
}

// Before what cannot be a node: waiting, asking, work that returns when it is done.
inline CUresult refuse_captured(CUstream stream, bool per_thread) {
    if (!graphs::any_capture()) return CUDA_SUCCESS;
    return graphs::guarded([&] { graphs::refuse_captured(as_captured(stream, per_thread)); });
}

inline CUresult refuse_unsafe() {
    return graphs::guarded([] { graphs::refuse_unsafe(); });
}

// Before waiting for all of a context.
inline CUresult refuse_captured_context(uint64_t context) {
    if (!graphs::any_capture()) return CUDA_SUCCESS;
    return graphs::guarded([&] {
        graphs::refuse_context(context);
        graphs::refuse_unsafe();
    });
}

// While one lives, stream 0 means the calling thread's own default stream to the entry points of the front
// and of graphs.
class PerThreadDefault {
  public:
    PerThreadDefault();
    ~PerThreadDefault();
    PerThreadDefault(const PerThreadDefault&) = delete;
    PerThreadDefault& operator=(const PerThreadDefault&) = delete;

  private:
    const bool before_;
};
bool in_per_thread_form();  // one lives

}  // namespace client
