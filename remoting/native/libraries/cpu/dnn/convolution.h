// Convolutions by products of matrices: each place of the filter's window is a row of numbers of the image, and a filter
// times these rows is a channel of the result.
#pragma once

#include "dnn/tensors.h"

namespace maths::cudnn {

// What is convolved, as descriptors and memory that were looked up and go together. Weights have a tensor's strides.
struct Convolved {
    Tensor x;
    uint64_t x_data;
    Tensor w;
    uint64_t w_data;
    Convolution by;
    Tensor y;
    uint64_t y_data;
};

CUresult convolve_forward(const Convolved& convolved, Blend blend, Work& work);
CUresult convolve_back_to_data(const Convolved& convolved, Blend blend, Work& work);
CUresult convolve_back_to_filter(const Convolved& convolved, Blend blend, Work& work);

}  // namespace maths::cudnn
