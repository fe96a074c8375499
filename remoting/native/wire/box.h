// A box of bytes in memory or in an array, `width` bytes by `height` rows by `depth` planes, and how both
// sides cut it into the same pieces, each small enough for a frame. A flat range is a box of one row.
#pragma once

#include <algorithm>
#include <cstdint>

namespace wire {

struct Box {
    uint64_t address;
    uint64_t pitch;  // from one row to the next, in bytes
    uint64_t rows;   // from one plane to the next, in rows
    uint64_t width, height, depth;
    uint64_t array =
        0;  // whose shape gives pitch and rows; `address` is an offset in it (cuda/array_shape.h)
};

constexpr Box flat(uint64_t address, uint64_t bytes) {
    return {address, bytes, 1, bytes, 1, 1};
}

constexpr bool is_flat(const Box& box) {
    return box.height == 1 && box.depth == 1 && box.array == 0;
}

constexpr uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
constexpr uint64_t plus(uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

// What `rows` rows of `width` bytes take, `pitch` bytes apart.
constexpr uint64_t pitched(uint64_t pitch, uint64_t width, uint64_t rows) {
    if (rows == 0 || width == 0) return 0;
    if (width > pitch && rows > 1) return UINT64_MAX;
    return plus(times(pitch, rows - 1), width);
}

// Not empty, and no two rows share a byte: then it holds no more bytes than it spans.
constexpr bool well_formed(const Box& box) {
    if (box.width == 0 || box.height == 0 || box.depth == 0) return false;
    if ((box.height > 1 || box.depth > 1) && box.pitch < box.width) return false;
    return box.depth == 1 || box.rows >= box.height;
}

// Bytes from its first to its last; UINT64_MAX when that is more than there can be.
constexpr uint64_t span(const Box& box) {
    const uint64_t planes = times(times(box.pitch, box.rows), box.depth - 1);
    return plus(plus(planes, times(box.pitch, box.height - 1)), box.width);
}

// Bytes that it holds.
constexpr uint64_t volume(const Box& box) {
    return times(times(box.width, box.height), box.depth);
}

// Rows and planes that follow each other without gaps in both boxes become longer rows. Both are well formed
// and of one shape, and stay so. Rows in an array are its own.
constexpr void join_rows(Box& a, Box& b) {
    if (a.array || b.array) return;
    for (;;) {
        if (a.height == 1 && a.depth > 1) {
            for (Box* box : {&a, &b}) {
                *box = {box->address, box->pitch * box->rows, box->depth, box->width, box->depth, 1};
            }
        }
        if (a.height == 1 || a.pitch != a.width || b.pitch != b.width) return;
        for (Box* box : {&a, &b}) {
            box->rows = box->depth > 1 ? box->rows : box->height;
            const uint64_t plane = box->pitch * box->rows;
            *box = {box->address, plane, 1, box->width * box->height, 1, box->depth};
        }
    }
}

// Where a piece of a box begins, and its shape.
struct Piece {
    uint64_t x, y, z, width, height, depth;
};

constexpr Box part_of(const Box& box, const Piece& piece) {
    return {box.address + (piece.z * box.rows + piece.y) * box.pitch + piece.x,
            box.pitch,
            box.rows,
            piece.width,
            piece.height,
            piece.depth,
            box.array};
}

// Calls `visit(piece)` for each piece of a well-formed box, of at most `most` bytes, in the order of the
// bytes; ends early and returns false when it does. Boxes of one shape are cut alike.
template <typename Visit>
constexpr bool cut(const Box& box, uint64_t most, Visit visit) {
    const bool whole_rows = box.width <= most;
    const bool whole_planes = times(box.width, box.height) <= most;
    const uint64_t bytes_at_once = whole_rows ? box.width : most;
    const uint64_t rows_at_once = whole_planes ? box.height : whole_rows ? most / box.width : 1;
    const uint64_t planes_at_once = whole_planes ? most / (box.width * box.height) : 1;
    for (uint64_t z = 0; z < box.depth; z += planes_at_once) {
        for (uint64_t y = 0; y < box.height; y += rows_at_once) {
            for (uint64_t x = 0; x < box.width; x += bytes_at_once) {
                const Piece piece{x,
                                  y,
                                  z,
                                  std::min(bytes_at_once, box.width - x),
                                  std::min(rows_at_once, box.height - y),
                                  std::min(planes_at_once, box.depth - z)};
                if (!visit(piece)) return false;
            }
        }
    }
    return true;
}

}  // namespace wire
