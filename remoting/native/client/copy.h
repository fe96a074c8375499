// Copies between any two places, in one, two or three dimensions.
#pragma once

#include "box.h"
#include "copy_request.h"
#include "front/platform.h"

namespace client {

using front::Wait;

// Where a copy's ends really are: on a device, which arrays are too, or in the program's memory.
struct CopyPlaces {
    wire::Box to, from;
    bool to_device = false, from_device = false;
    bool host_sees = false;  // the processor, too, uses one of them there
    bool to_pinned = false;  // memory that is pinned, and not shared with kernels
};
CUresult find_places(const cuda::CopyRequest& request, CopyPlaces& places);

CUresult copy(const cuda::CopyRequest& request, CUstream stream, bool per_thread, Wait wait);

}  // namespace client
