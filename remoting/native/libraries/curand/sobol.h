// Sobol's sequences with the direction numbers of Joe and Kuo (2008).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace maths::curand {

// Of one dimension, from 0 on: what a bit of a point's Gray code adds.
template <typename Word>
using Directions = std::array<Word, 8 * sizeof(Word)>;

template <typename Word>
Directions<Word> directions_of(size_t dimension);

// The points of one dimension, one after another.
template <typename Word>
class Sobol {
  public:
    Sobol(size_t dimension, uint64_t first) : directions_(directions_of<Word>(dimension)), index_(first) {
        for (uint64_t gray = first ^ first >> 1; gray; gray &= gray - 1) flip(__builtin_ctzll(gray));
    }
    Word next() {
        const Word point = point_;
        if (~index_) flip(__builtin_ctzll(~index_));
        ++index_;
        return point;
    }

  private:
    void flip(int bit) {
        if (static_cast<size_t>(bit) < directions_.size()) point_ ^= directions_[static_cast<size_t>(bit)];
    }

    Directions<Word> directions_;
    uint64_t index_;
    Word point_ = 0;
};

}  // namespace maths::curand
