#include "curand/sobol.h"

#include <vector>

#include "curand/messages.h"
#include "sobol_numbers.inc"

namespace maths::curand {
namespace {

static_assert(std::size(kDegrees) == kMostDimensions - 1);  // the first dimension has no polynomial

// Where a dimension's first numbers lie.
size_t place_of(size_t dimension) {
    static const auto* const places = [] {
        auto* const all = new std::vector<uint32_t>{0};
        for (const uint8_t degree : kDegrees) all->push_back(all->back() + degree);
        return all;
    }();
    return (*places)[dimension - 1];
}

}  // namespace

// Bratley and Fox (1988): each number from as many before it as its polynomial's degree is.
template <typename Word>
Directions<Word> directions_of(size_t dimension) {
    constexpr size_t kBits = 8 * sizeof(Word);
    Directions<Word> v;
    if (dimension == 0) {
        for (size_t i = 0; i < kBits; ++i) v[i] = Word{1} << (kBits - 1 - i);
        return v;
    }
    const size_t degree = kDegrees[dimension - 1], place = place_of(dimension);
    const uint32_t inner = kInner[dimension - 1];
    for (size_t i = 0; i < kBits; ++i) {
        if (i < degree) {
            v[i] = static_cast<Word>(kInitial[place + i]) << (kBits - 1 - i);
            continue;
        }
        v[i] = v[i - degree] ^ v[i - degree] >> degree;
        for (size_t k = 1; k < degree; ++k) {
            if (inner >> (degree - 1 - k) & 1) v[i] ^= v[i - k];
        }
    }
    return v;
}

template Directions<uint32_t> directions_of<uint32_t>(size_t);
template Directions<uint64_t> directions_of<uint64_t>(size_t);

}  // namespace maths::curand
