// Results of the processor's kernels are made in the slice's memory, so that nobody has to copy them there.
#pragma once

#include <c10/core/Allocator.h>

#include "slice_memory.h"

namespace gk {

// While one lives, this thread's memory for the processor comes from the current device's allocator, where
// the processor reaches that, and counts there. Other threads' does not. Nothing changes where operators do
// not run in place.
class ResultsInSlice {
  public:
    explicit ResultsInSlice(const SliceMemory& memory);
    ~ResultsInSlice();
    ResultsInSlice(const ResultsInSlice&) = delete;
    ResultsInSlice& operator=(const ResultsInSlice&) = delete;

  private:
    const SliceMemory* const before_;
};

// Puts itself before the processor's allocator. Once; not while another thread allocates.
void stand_before_the_processors_allocator();

// Whether memory is the device allocator's; then `on_device` makes it a device's pointer.
bool lies_in_slice(const at::DataPtr& data);
at::DataPtr on_device(at::DataPtr data, c10::Device device);

}  // namespace gk
