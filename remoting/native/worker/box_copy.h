// Copies of boxes, as far as others need them.
#pragma once

#include "box.h"
#include "handlers.h"

namespace worker {

// An end of a driver's copy: memory of the worker's, of the lease, or an array of the session's.
struct CopyPlace {
    wire::Box box;  // its strides are what every driver takes
    CUmemorytype type = CU_MEMORYTYPE_DEVICE;
    uint8_t device = 0;
    Array array{};  // which it keeps
    cuda::ArrayPlace place{};
};
// Where the box is on a device; INVALID_VALUE unless all of it is the lease's, and within its array.
CUresult find_place(const Context& context, const wire::Box& box, CopyPlace& place);
// Memory of the worker's.
CopyPlace host_place(const wire::Box& box);

CUDA_MEMCPY3D described(const CopyPlace& to, const CopyPlace& from);

// Queues the copy of a piece from the device, its bytes without gaps, to `to`.
CUresult copy_piece_out(Context& context, void* to, const wire::Box& piece, CUstream stream);

}  // namespace worker
