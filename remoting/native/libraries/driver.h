// The driver of the program that this library is loaded in, opened at the first call that needs it.
#pragma once

#include <cuda.h>

namespace libraries {

// Kernels that a library brings as PTX. They run in the program's own context and stream: what order, capture
// and memory mean is the driver's affair, and an access outside the slice is the driver's to refuse.
class Kernels {
  public:
    explicit constexpr Kernels(const char* ptx) : ptx_(ptx) {}
    // As cuLaunchKernel. Any thread.
    CUresult launch(const char* name, CUstream stream, unsigned blocks, unsigned layers, unsigned threads,
                    void** arguments);

  private:
    CUresult kernel(const char* name, CUfunction* found, bool anew);

    const char* ptx_;
    CUlibrary library_ = nullptr;
};

}  // namespace libraries
