// Tensors at the CPU end: an image at a time, as numbers of one type without gaps, channels before space.
#pragma once

#include <algorithm>
#include <vector>

#include "cudnn_messages.h"
#include "watch.h"
#include "work.h"

namespace maths::cudnn {

// Elements of an image: of all dimensions but the first.
inline int64_t volume_of(const Tensor& tensor) {
    int64_t volume = 1;
    for (int i = 1; i < tensor.rank; ++i) volume *= tensor.dims[i];
    return volume;
}
inline int64_t space_of(const Tensor& tensor) {
    return tensor.rank > 1 ? volume_of(tensor) / tensor.dims[1] : 1;
}

// Some numbers of an image, from the first on, as they lie without gaps.
struct Piece {
    int64_t image, first, count;
};
inline constexpr int64_t kMostOfPiece = 1 << 18;
inline Piece whole_image(const Tensor& tensor, int64_t n) {
    return {n, 0, volume_of(tensor)};
}

// A piece of a tensor that was looked up, in the dimensions of `as`: where the tensor's are 1 its numbers are repeated.
template <typename A>
void load(const Tensor& tensor, uint64_t data, const Tensor& as, Piece piece, A* to);
template <typename A>
std::vector<A> numbers_of(const Tensor& tensor, uint64_t data, const Tensor& as, Piece piece) {
    std::vector<A> numbers(static_cast<size_t>(piece.count));
    load(tensor, data, as, piece, numbers.data());
    return numbers;
}
template <typename A>
std::vector<A> numbers_of(const Tensor& tensor, uint64_t data, Piece piece) {
    return numbers_of<A>(tensor, data, tensor, piece);
}
// The n-th image.
template <typename A>
void load(const Tensor& tensor, uint64_t data, const Tensor& as, int64_t n, A* to) {
    load(tensor, data, as, whole_image(as, n), to);
}
template <typename A>
std::vector<A> image(const Tensor& tensor, uint64_t data, const Tensor& as, int64_t n) {
    std::vector<A> numbers(static_cast<size_t>(volume_of(as)));
    load(tensor, data, as, n, numbers.data());
    return numbers;
}
template <typename A>
std::vector<A> image(const Tensor& tensor, uint64_t data, int64_t n) {
    return image<A>(tensor, data, tensor, n);
}
// All of a small one.
template <typename A>
std::vector<A> whole(const Tensor& tensor, uint64_t data) {
    const int64_t volume = volume_of(tensor);
    std::vector<A> numbers(static_cast<size_t>(volume * tensor.dims[0]));
    for (int64_t n = 0; n < tensor.dims[0]; ++n) load(tensor, data, tensor, n, numbers.data() + n * volume);
    return numbers;
}

// For the images that a call has at once: so many of the largest, in double precision, and numbers beside
// them.
template <typename... Described>
void reserve_images(Work& work, uint64_t images, uint64_t numbers, const Described&... tensors) {
    const uint64_t largest = static_cast<uint64_t>(std::max({volume_of(tensors)...}));
    work.reserve(product(sum(product(images, largest), numbers), sizeof(double)));
}

// How a result goes to where it belongs: alpha * result + beta * what is there, which is not read for beta 0.
struct Blend {
    double alpha = 1, beta = 0;
};
template <typename Described>
double scale(const Scalar& scalar, const Described& described) {
    return scale_of(described) == kF64 ? value<double>(scalar) : static_cast<double>(value<float>(scalar));
}
template <typename Described>
Blend blend(const Scalar& alpha, const Scalar& beta, const Described& described) {
    return {scale(alpha, described), scale(beta, described)};
}

template <typename A>
void store(const Tensor& tensor, uint64_t data, Piece piece, const A* from, Blend blend);
template <typename A>
void store(const Tensor& tensor, uint64_t data, int64_t n, const A* from, Blend blend) {
    store(tensor, data, whole_image(tensor, n), from, blend);
}
template <typename A>
void store_whole(const Tensor& tensor, uint64_t data, const A* from, Blend blend) {
    const int64_t volume = volume_of(tensor);
    for (int64_t n = 0; n < tensor.dims[0]; ++n) store(tensor, data, n, from + n * volume, blend);
}

// Calls `body` with a number of the type that is computed in: double where one of the tensors is, else float.
template <typename Body, typename... Described>
CUresult in_precision(Body body, const Described&... described) {
    if (((described.type == kDouble) || ...)) {
        body(double{});
    } else {
        body(float{});
    }
    return CUDA_SUCCESS;
}

// For the pieces that a call has at once, as reserve_images does.
inline void reserve_pieces(Work& work, uint64_t pieces, uint64_t numbers, const Tensor& tensor) {
    const uint64_t largest = static_cast<uint64_t>(std::min(kMostOfPiece, volume_of(tensor)));
    work.reserve(product(sum(product(pieces, largest), numbers), sizeof(double)));
}

// Calls `body` with pieces of all images, between which work can be interrupted.
template <typename Body>
void for_pieces(const Tensor& tensor, const Work& work, Body body) {
    const int64_t volume = volume_of(tensor);
    for (int64_t n = 0; n < tensor.dims[0]; ++n) {
        for (int64_t first = 0; first < volume; first += kMostOfPiece) {
            if (work.stopped()) return;
            body(Piece{n, first, std::min(kMostOfPiece, volume - first)});
        }
    }
}
// Calls `body` with each number below `count`; a long list can be interrupted.
template <typename Body>
void for_numbers(int64_t count, const Work& work, Body body) {
    constexpr int64_t kApart = 1 << 20;
    for (int64_t first = 0; first < count; first += kApart) {
        if (first > 0 && work.stopped()) return;
        for (int64_t i = first; i < std::min(count, first + kApart); ++i) body(i);
    }
}

// An activation's value, and its derivative times dy.
double activated(const Activation& activation, double x);
double activated_back(const Activation& activation, double x, double y, double dy);

}  // namespace maths::cudnn
