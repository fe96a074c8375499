// What the descriptor of a spatial transformer says: of which images a grid has places.
#pragma once

#include "cudnn/rules.h"

namespace maths::cudnn {

inline constexpr int kOfMap = 6, kOfPlace = 2;  // numbers of an affine map, and of a place

constexpr Type type_of(const Transformer& by) {
    return element_type(by.type);
}
// The only sampler is the bilinear one.
constexpr bool is_transformer(const Transformer& by) {
    bool fits = by.sampler == 0 && by.rank == kTransformed && element_type(by.type) != kNoType;
    for (int i = 0; fits && i < kTransformed; ++i) fits = by.dims[i] >= 1 && by.dims[i] <= kMostSize;
    return fits;
}
constexpr Extent maps_of(const Transformer& by) {
    return {is_transformer(by), product(length(by.dims[0]), kOfMap)};
}
constexpr Extent places_of(const Transformer& by) {
    const uint64_t places = product(product(length(by.dims[0]), length(by.dims[2])), length(by.dims[3]));
    return {is_transformer(by), product(places, kOfPlace)};
}
// To y, which has the grid's height and width, from x, which may have others.
constexpr bool samples(const Transformer& by, const Tensor& x, const Tensor& y) {
    bool fits = is_transformer(by) && is_tensor(x) && is_tensor(y) && x.rank == kTransformed &&
                y.rank == kTransformed;
    for (int i = 0; fits && i < kTransformed; ++i) fits = y.dims[i] == by.dims[i];
    return fits && x.dims[0] == y.dims[0] && x.dims[1] == y.dims[1] && x.type == by.type && y.type == by.type;
}

}  // namespace maths::cudnn
