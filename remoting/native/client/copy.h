// Copies between any two places, in one, two or three dimensions.
#pragma once

#include "box.h"
#include "copy_request.h"

namespace client {

// Whether the caller may rely on the copy's effect from any stream, or on the host, when the call returns.
enum class Wait { yes, no };

// Where a copy's ends really are: on a device, or in the program's memory.
struct CopyPlaces {
    wire::Box to, from;
    bool to_device = false, from_device = false;
};
CUresult find_places(const cuda::CopyRequest& request, CopyPlaces& places);

// What the request says of an end's kind counts only for memory that this library does not know: a pointer
// says itself where it points to.
CUresult copy(const cuda::CopyRequest& request, CUstream stream, bool per_thread, Wait wait);

}  // namespace client
