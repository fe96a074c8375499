// Copies from and to arrays by the calls of CUDA's first releases: of boxes, and of bytes that fill its rows
// in turn.
#include <algorithm>

#include "array.h"
#include "copy.h"
#include "copy_shape.h"
#include "forward.h"

using namespace cudart;

namespace {

auto now(DefaultStream stream) {
    return [=](const Driver& driver, const CUDA_MEMCPY3D& copy) {
        const bool own = stream == DefaultStream::per_thread;
        return invoke(own ? driver.cuMemcpy3D_v2_ptds : driver.cuMemcpy3D_v2, &copy);
    };
}

auto on(cudaStream_t stream) {
    return [=](const Driver& driver, const CUDA_MEMCPY3D& copy) {
        return invoke(driver.cuMemcpy3DAsync_v2, &copy, stream);
    };
}

// `send(driver, CUDA_MEMCPY3D)`.
template <typename Send>
cudaError_t copy_box(const Side& to, const Side& from, size_t width, size_t height, cudaMemcpyKind kind,
                     Send send) {
    return call<Need::context>([&](const Driver& driver) {
        const Shape shape{from, to, width, height, 1, kind};
        if (cudaError_t error = look_at(shape); error != cudaSuccess) return error;
        return shape.empty() ? cudaSuccess : translated(send(driver, driver_copy(shape)));
    });
}

Side flat(const void* start) {
    return {start, 0, 0, 0, 0, 0};
}

// A side whose bytes follow each other, in an array from row to row.
struct Line {
    Side side;
    size_t row = 0;  // bytes; 0: memory, which has no rows
};

CUresult find_row(const Driver& driver, Line& line) {
    return line.side.array ? row_of(driver, line.side.array, line.row) : CUDA_SUCCESS;
}

size_t left_in_row(const Line& line) {
    return line.row ? line.row - std::min(line.side.x, line.row) : SIZE_MAX;
}

// So many whole rows begin here on both sides, that one box has them; 0: the next piece is in one row.
size_t whole_rows(const Line& to, const Line& from, size_t count) {
    const size_t row = to.row ? to.row : from.row;
    for (const Line* line : {&to, &from}) {
        if (line->row && (line->side.x != 0 || line->row != row)) return 0;
    }
    return count / row;
}

void advance(Line& line, size_t width, size_t rows) {
    if (!line.row) {
        line.side.start = static_cast<const std::byte*>(line.side.start) + width * rows;
        return;
    }
    line.side.x += width;
    line.side.y += line.side.x == line.row ? rows : rows - 1;
    if (line.side.x == line.row) line.side.x = 0;
}

// Of `count` bytes, in as few boxes as they need: with one array, or two of one width, three at most.
template <typename Send>
cudaError_t copy_line(Line to, Line from, size_t count, cudaMemcpyKind kind, Send send) {
    return call<Need::context>([&](const Driver& driver) {
        if (!known_kind(kind)) return cudaErrorInvalidMemcpyDirection;
        if (CUresult error = find_row(driver, to)) return translated(error);
        if (CUresult error = find_row(driver, from)) return translated(error);
        while (count > 0) {
            const size_t rows = whole_rows(to, from, count);
            const size_t width =
                rows ? (to.row ? to.row : from.row) : std::min({count, left_in_row(to), left_in_row(from)});
            if (width == 0) return cudaErrorInvalidValue;
            Shape shape{from.side, to.side, width, std::max<size_t>(rows, 1), 1, kind};
            for (Side* side : {&shape.from, &shape.to}) {
                if (!side->array) side->pitch = width, side->height = shape.height;
            }
            if (cudaError_t error = look_at(shape); error != cudaSuccess) return error;
            if (CUresult error = send(driver, driver_copy(shape))) return translated(error);
            advance(to, width, shape.height);
            advance(from, width, shape.height);
            count -= width * shape.height;
        }
        return cudaSuccess;
    });
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src,
                                size_t spitch, size_t width, size_t height, cudaMemcpyKind kind) {
    return copy_box(side_in(dst, wOffset, hOffset), {src, spitch, height, 0, 0, 0}, width, height, kind,
                    now(DefaultStream::legacy));
}
cudaError_t cudaMemcpy2DToArray_ptds(cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src,
                                     size_t spitch, size_t width, size_t height, cudaMemcpyKind kind) {
    return copy_box(side_in(dst, wOffset, hOffset), {src, spitch, height, 0, 0, 0}, width, height, kind,
                    now(DefaultStream::per_thread));
}
cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src,
                                     size_t spitch, size_t width, size_t height, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
    return copy_box(side_in(dst, wOffset, hOffset), {src, spitch, height, 0, 0, 0}, width, height, kind,
                    on(stream));
}

cudaError_t cudaMemcpy2DFromArray(void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
                                  size_t hOffset, size_t width, size_t height, cudaMemcpyKind kind) {
    return copy_box({dst, dpitch, height, 0, 0, 0}, side_in(src, wOffset, hOffset), width, height, kind,
                    now(DefaultStream::legacy));
}
cudaError_t cudaMemcpy2DFromArray_ptds(void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
                                       size_t hOffset, size_t width, size_t height, cudaMemcpyKind kind) {
    return copy_box({dst, dpitch, height, 0, 0, 0}, side_in(src, wOffset, hOffset), width, height, kind,
                    now(DefaultStream::per_thread));
}
cudaError_t cudaMemcpy2DFromArrayAsync(void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
                                       size_t hOffset, size_t width, size_t height, cudaMemcpyKind kind,
                                       cudaStream_t stream) {
    return copy_box({dst, dpitch, height, 0, 0, 0}, side_in(src, wOffset, hOffset), width, height, kind,
                    on(stream));
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                     cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
                                     size_t width, size_t height, cudaMemcpyKind kind) {
    return copy_box(side_in(dst, wOffsetDst, hOffsetDst), side_in(src, wOffsetSrc, hOffsetSrc), width, height,
                    kind, now(DefaultStream::legacy));
}
cudaError_t cudaMemcpy2DArrayToArray_ptds(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                          cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
                                          size_t width, size_t height, cudaMemcpyKind kind) {
    return copy_box(side_in(dst, wOffsetDst, hOffsetDst), side_in(src, wOffsetSrc, hOffsetSrc), width, height,
                    kind, now(DefaultStream::per_thread));
}

cudaError_t cudaMemcpyToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t count,
                              cudaMemcpyKind kind) {
    return copy_line({side_in(dst, wOffset, hOffset)}, {flat(src)}, count, kind, now(DefaultStream::legacy));
}
cudaError_t cudaMemcpyToArray_ptds(cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src,
                                   size_t count, cudaMemcpyKind kind) {
    return copy_line({side_in(dst, wOffset, hOffset)}, {flat(src)}, count, kind,
                     now(DefaultStream::per_thread));
}
cudaError_t cudaMemcpyToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src,
                                   size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_line({side_in(dst, wOffset, hOffset)}, {flat(src)}, count, kind, on(stream));
}

cudaError_t cudaMemcpyFromArray(void* dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
                                size_t count, cudaMemcpyKind kind) {
    return copy_line({flat(dst)}, {side_in(src, wOffset, hOffset)}, count, kind, now(DefaultStream::legacy));
}
cudaError_t cudaMemcpyFromArray_ptds(void* dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
                                     size_t count, cudaMemcpyKind kind) {
    return copy_line({flat(dst)}, {side_in(src, wOffset, hOffset)}, count, kind,
                     now(DefaultStream::per_thread));
}
cudaError_t cudaMemcpyFromArrayAsync(void* dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
                                     size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_line({flat(dst)}, {side_in(src, wOffset, hOffset)}, count, kind, on(stream));
}

cudaError_t cudaMemcpyArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                   cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc, size_t count,
                                   cudaMemcpyKind kind) {
    return copy_line({side_in(dst, wOffsetDst, hOffsetDst)}, {side_in(src, wOffsetSrc, hOffsetSrc)}, count,
                     kind, now(DefaultStream::legacy));
}
cudaError_t cudaMemcpyArrayToArray_ptds(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                        cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
                                        size_t count, cudaMemcpyKind kind) {
    return copy_line({side_in(dst, wOffsetDst, hOffsetDst)}, {side_in(src, wOffsetSrc, hOffsetSrc)}, count,
                     kind, now(DefaultStream::per_thread));
}
}
