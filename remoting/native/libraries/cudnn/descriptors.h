// cuDNN's descriptors as they travel with a call, by value.
#pragma once

#include <cstdint>

namespace maths::cudnn {

inline constexpr int kMostDims = 8;
inline constexpr int kMostSpatial = kMostDims - 2;
inline constexpr int64_t kMostSize = INT32_MAX;  // of one dimension, as the API's integers have it

// cudnnDataType_t.
enum DataType : int32_t { kFloat = 0, kDouble = 1, kHalf = 2, kInt8 = 3, kInt32 = 4, kBfloat16 = 9, kInt64 = 10 };

enum Format : int32_t { kNchw = 0, kNhwc = 1 };

// Dimensions are batch, channels, and those of space. With rank 0 the program gave none.
struct Tensor {
    int32_t type, rank;
    int64_t dims[kMostDims], strides[kMostDims];
};
struct Filter {
    int32_t type, format, rank, zero;
    int64_t dims[kMostDims];
};
struct Convolution {
    int32_t rank;  // of space
    int32_t mode, compute, groups, math, reorder;
    int32_t pads[kMostSpatial], pads_after[kMostSpatial], strides[kMostSpatial], dilations[kMostSpatial];
};
struct Pooling {
    int32_t mode, nan, rank, zero;
    int32_t window[kMostSpatial], pads[kMostSpatial], strides[kMostSpatial];
};
struct Activation {
    int32_t mode, nan;
    double coefficient, swish_beta;
};
struct Lrn {
    uint32_t n, zero;
    double alpha, beta, k;
};
struct OpTensor {
    int32_t op, compute, nan, zero;
};
struct Reduction {
    int32_t op, compute, nan, indices, index_type, zero;
};

// The states lie in the slice; without them nothing is dropped.
struct Dropout {
    double rate;
    uint64_t states, state_bytes, seed;
};
struct Rnn {
    int32_t algorithm, cell, bias, direction, input, type, compute, math;
    int32_t input_size, hidden_size, projection_size, layers;
    uint32_t flags, zero;
    Dropout dropout;
};
// More sequences than this of one batch are all of one length.
inline constexpr int kMostLengths = 1024;
struct RnnData {
    int32_t type, layout, max_length, batch, vector_size;
    int32_t listed;  // 1: a length for each sequence, else the first is that of all
    int32_t fills, zero;
    unsigned char fill[8];  // a number of the type, for places behind a sequence's end
    int32_t lengths[kMostLengths];
};

// The loss of connectionist temporal classification.
struct Ctc {
    int32_t type, normalization, gradient_mode, max_label_length;
};
inline constexpr int kTransformed = 4;  // images, channels, height, width
struct Transformer {
    int32_t sampler, type, rank, zero;
    int64_t dims[kTransformed];
};

}  // namespace maths::cudnn
