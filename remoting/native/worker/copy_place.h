// Where one end of a copy is, as a driver is told.
#pragma once

#include "arrays.h"
#include "box.h"

namespace worker {

// An end of a driver's copy: memory of the worker's, of the lease, or an array of the session's.
struct CopyPlace {
    wire::Box box;  // its strides are what every driver takes
    CUmemorytype type = CU_MEMORYTYPE_DEVICE;
    uint8_t device = 0;
    Array array{};  // which it keeps
    cuda::ArrayPlace place{};
};

}  // namespace worker
