// A copy of a two- or three-dimensional region in the driver's words.
#pragma once

#include "driver.h"

namespace cudart {

// One side of a copy: rows of `pitch` bytes, `height` of them a plane, and where in them the region starts.
struct Side {
    const void* start;
    size_t pitch, height;
    size_t x, y, z;
};

struct Shape {
    Side from, to;
    size_t width, height, depth;  // bytes, rows, planes
    cudaMemcpyKind kind;

    bool empty() const { return width == 0 || height == 0 || depth == 0; }
};

// cudaErrorNotSupported for a copy from or to an array: no driver that this library is meant for has them.
cudaError_t shape_of(const cudaMemcpy3DParms& given, Shape& shape);

// A copy of one row.
Shape row(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind);

CUDA_MEMCPY3D driver_copy(const Shape& shape);
cudaMemcpy3DParms runtime_copy(const CUDA_MEMCPY3D& copy);

}  // namespace cudart
