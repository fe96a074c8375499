// A copy of a two- or three-dimensional region in the driver's words.
#pragma once

#include "driver.h"

namespace cudart {

// One side of a copy: rows of `pitch` bytes, `height` of them a plane, or an array; and where in them the
// region starts, x in bytes.
struct Side {
    const void* start;
    size_t pitch, height;
    size_t x, y, z;
    cudaArray_const_t array = nullptr;
};

inline Side side_in(cudaArray_const_t array, size_t x, size_t y) {
    return {nullptr, 0, 0, x, y, 0, array};
}

struct Shape {
    Side from, to;
    size_t width, height, depth;  // bytes, rows, planes
    cudaMemcpyKind kind;

    bool empty() const { return width == 0 || height == 0 || depth == 0; }
};

// What a call copies. Where an array is, sizes and the place in it count its elements.
cudaError_t shape_of(const Driver& driver, const cudaMemcpy3DParms& given, Shape& shape);

// What no copy is: a width beyond a pitch, a kind that takes an array for memory of the host.
cudaError_t look_at(const Shape& shape);

// A copy of one row.
Shape row(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind);

CUDA_MEMCPY3D driver_copy(const Shape& shape);
CUresult runtime_copy(const Driver& driver, const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms& parms);

}  // namespace cudart
