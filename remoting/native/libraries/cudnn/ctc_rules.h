// What the descriptor of CTC's loss says.
#pragma once

#include "cudnn/rules.h"

namespace maths::cudnn {

// What is given: probabilities, or numbers that softmax makes probabilities of. Slopes are of the latter in
// both cases.
enum Normalization : int32_t { kProbabilities = 0, kActivations = 1 };
// Slopes of a sequence that is too short for its labels.
enum ImpossibleSlopes : int32_t { kZeros = 0, kLeft = 1 };

constexpr bool is_ctc(const Ctc& by) {
    return is_compute(by.type) && is_switch(by.normalization) && is_switch(by.gradient_mode) &&
           by.max_label_length >= 0;
}
// Steps, sequences and classes.
constexpr bool classifies(const Ctc& by, const Tensor& probabilities, const Tensor& gradients) {
    return is_ctc(by) && is_tensor(probabilities) && probabilities.rank == 3 &&
           (gradients.rank == 0 || (is_tensor(gradients) && alike(gradients, probabilities)));
}

}  // namespace maths::cudnn
