// Copies of boxes, as far as others need them.
#pragma once

#include "box.h"
#include "handlers.h"

namespace worker {

// Queues the copy of a piece from the device, its bytes without gaps, to `to`.
CUresult copy_piece_out(Context& context, void* to, const wire::Box& piece, CUstream stream);

}  // namespace worker
