// Copies of boxes, as far as others need them.
#pragma once

#include "copy_place.h"
#include "handlers.h"

namespace worker {

// Where the box is on a device; INVALID_VALUE unless all of it is the lease's, and within its array.
CUresult find_place(const Context& context, const wire::Box& box, CopyPlace& place);
// Memory of the worker's.
CopyPlace host_place(const wire::Box& box);

CUDA_MEMCPY3D described(const CopyPlace& to, const CopyPlace& from);

// A piece of what was found.
CopyPlace part_of(const CopyPlace& place, const wire::Piece& piece);

// Queues the copy of a piece from the device, its bytes without gaps, to `to`.
CUresult copy_piece_out(Context& context, void* to, const CopyPlace& piece, CUstream stream);

}  // namespace worker
