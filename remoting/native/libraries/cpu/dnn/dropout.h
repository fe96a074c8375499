// Which numbers dropout keeps.
#pragma once

#include "dnn/tensors.h"

namespace maths::cudnn {

// The random numbers of a descriptor's states, which lie in the slice: each number of the sequence is a hash
// of the seed and its place. What is drawn is taken off them at the end, so that the next call draws others.
class Draws {
  public:
    static void begin(const Dropout& dropout);
    // `count` will be drawn.
    Draws(const Dropout& dropout, uint64_t count);

    bool keeps();
    // What a number that is kept is multiplied by.
    double scale() const { return rate_ < 1 ? 1 / (1 - rate_) : 0; }

  private:
    const double rate_;
    uint64_t seed_ = 0, next_ = 0;
};

}  // namespace maths::cudnn
