// Copies between one-dimensional regions, as memory.cc, symbol.cc and graphs need them.
#pragma once

#include "driver.h"

namespace cudart {

// Whose default stream a call without a stream means.
enum class DefaultStream { legacy, per_thread };

// A copy that has the effects of cudaMemcpy when it returns.
CUresult copy_now(const Driver& driver, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                  DefaultStream stream);

CUresult copy_on(const Driver& driver, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream);

inline bool known_kind(cudaMemcpyKind kind) {
    return static_cast<unsigned>(kind) <= cudaMemcpyDefault;
}

// The kinds that a copy to or from a variable of device code may have.
inline bool into_device(cudaMemcpyKind kind) {
    return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

inline bool out_of_device(cudaMemcpyKind kind) {
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

}  // namespace cudart
