// What cuDNN's descriptors say: how far a tensor reaches, and whether those of a convolution or a pooling go together. The
// numbers may be anything: nothing here overflows.
#pragma once

#include "cudnn/descriptors.h"
#include "operands.h"

namespace maths::cudnn {

constexpr Type element_type(int64_t type) {
    switch (type) {
        case kFloat:
            return kF32;
        case kDouble:
            return kF64;
        case kHalf:
            return kF16;
        case kInt8:
            return kI8;
        case kInt32:
            return kI32;
        case kBfloat16:
            return kB16;
        case kInt64:
            return kI64;
        default:
            return kNoType;
    }
}
// Types that the CPU end computes with.
constexpr bool is_real(int64_t type) {
    return type == kFloat || type == kDouble || type == kHalf || type == kBfloat16;
}

constexpr Type type_of(const Tensor& tensor) {
    return element_type(tensor.type);
}
constexpr Type type_of(const Filter& filter) {
    return element_type(filter.type);
}
// alpha and beta are double for tensors of double, and float for all others.
template <typename Described>
constexpr Type scale_of(const Described& described) {
    return described.type == kDouble ? kF64 : kF32;
}

template <typename Described>
constexpr uint64_t elements_of(const Described& described) {
    uint64_t count = 1;
    for (int i = 0; i < described.rank; ++i) count = product(count, length(described.dims[i]));
    return count;
}

// Each step is longer than what all smaller ones reach together, so that no two elements lie at one place.
constexpr bool lies_apart(const Tensor& tensor) {
    int order[kMostDims] = {}, count = 0;
    for (int i = 0; i < tensor.rank; ++i) {
        if (tensor.dims[i] == 1) continue;
        int at = count++;
        for (; at > 0 && tensor.strides[order[at - 1]] > tensor.strides[i]; --at) order[at] = order[at - 1];
        order[at] = i;
    }
    uint64_t reached = 0;
    for (int k = 0; k < count; ++k) {
        const uint64_t step = length(tensor.strides[order[k]]);
        if (step <= reached) return false;
        reached = sum(reached, product(length(tensor.dims[order[k]]) - 1, step));
    }
    return true;
}

// Elements of one tensor that lie on each other are refused: no operation is defined on them, and what an end needs to
// work in is so bounded by the memory that a tensor spans.
constexpr Extent spanned(const Tensor& tensor) {
    if (tensor.rank < 1 || tensor.rank > kMostDims) return {false, 0};
    uint64_t last = 0;
    for (int i = 0; i < tensor.rank; ++i) {
        if (tensor.dims[i] < 1 || tensor.dims[i] > kMostSize || tensor.strides[i] < 1) return {false, 0};
        last = sum(last, product(length(tensor.dims[i]) - 1, length(tensor.strides[i])));
    }
    return {lies_apart(tensor), sum(last, 1)};
}
constexpr Extent spanned(const Filter& filter) {
    bool fits = filter.rank >= 3 && filter.rank <= kMostDims && (filter.format == kNchw || filter.format == kNhwc);
    for (int i = 0; fits && i < filter.rank; ++i) fits = filter.dims[i] >= 1 && filter.dims[i] <= kMostSize;
    return {fits, fits ? elements_of(filter) : 0};
}
constexpr bool is_tensor(const Tensor& tensor) {
    return spanned(tensor).fits;
}

constexpr void pack(Tensor& tensor, bool channels_last) {
    uint64_t next = 1;
    const auto place = [&](int i) {
        tensor.strides[i] = static_cast<int64_t>(std::min<uint64_t>(next, INT64_MAX));
        next = product(next, length(tensor.dims[i]));
    };
    if (channels_last && tensor.rank > 1) place(1);
    for (int i = tensor.rank - 1; i >= 0; --i) {
        if (i != 1 || !channels_last) place(i);
    }
}
constexpr Tensor tensor_of(const Filter& filter) {
    Tensor tensor{filter.type, filter.rank, {}, {}};
    for (int i = 0; i < kMostDims; ++i) tensor.dims[i] = filter.dims[i];
    if (filter.rank >= 1 && filter.rank <= kMostDims) pack(tensor, filter.format == kNhwc);
    return tensor;
}
constexpr const Tensor& tensor_of(const Tensor& tensor) {
    return tensor;
}

constexpr bool same_shape(const Tensor& a, const Tensor& b) {
    bool same = a.rank == b.rank && a.rank <= kMostDims;
    for (int i = 0; same && i < a.rank; ++i) same = a.dims[i] == b.dims[i];
    return same;
}
constexpr bool alike(const Tensor& a, const Tensor& b) {
    return a.type == b.type && same_shape(a, b);
}
// Whether each dimension of `small` is that of `large`, or 1.
constexpr bool spreads(const Tensor& small, const Tensor& large) {
    bool fits = small.rank == large.rank && small.rank <= kMostDims;
    for (int i = 0; fits && i < small.rank; ++i) fits = small.dims[i] == large.dims[i] || small.dims[i] == 1;
    return fits;
}
// One number a channel.
constexpr bool is_of_channels(const Tensor& bias, const Tensor& tensor) {
    bool fits = bias.rank == tensor.rank && bias.rank >= 2 && bias.rank <= kMostDims;
    for (int i = 0; fits && i < bias.rank; ++i) fits = bias.dims[i] == (i == 1 ? tensor.dims[1] : 1);
    return fits;
}

// An operand that is there only where the call needs it.
constexpr Extent where(bool needed, const Tensor& tensor) {
    return needed ? spanned(tensor) : Extent{true, 0};
}
constexpr Type given_type(const Tensor& tensor) {
    return type_of(tensor) == kNoType ? kI8 : type_of(tensor);
}

enum ActivationMode : int32_t {
    kSigmoid = 0,
    kRelu = 1,
    kTanh = 2,
    kClippedRelu = 3,
    kElu = 4,
    kIdentity = 5,
    kSwish = 6,
};
constexpr bool is_finite(double number) {
    return number - number == 0;
}
// NVIDIA's enumerations, of which a message may have any number: those of switches, and what is computed in.
constexpr bool is_switch(int64_t value) {
    return value == 0 || value == 1;
}
constexpr bool is_compute(int32_t type) {
    return element_type(type) != kNoType;
}

// A ceiling below 0 is none.
constexpr bool is_activation(const Activation& activation) {
    return activation.mode >= kSigmoid && activation.mode <= kSwish && is_switch(activation.nan) &&
           is_finite(activation.coefficient) && is_finite(activation.swish_beta) &&
           (activation.coefficient >= 0 || activation.mode != kClippedRelu);
}
enum OpTensorOp : int32_t { kAdd = 0, kMul = 1, kMin = 2, kMax = 3, kSqrt = 4, kNot = 5 };
// As cudnnSetLRNDescriptor has the bounds.
constexpr bool is_lrn(const Lrn& lrn) {
    return lrn.n >= 1 && lrn.n <= 16 && lrn.k >= 1e-5 && lrn.beta >= 0.01 && is_finite(lrn.alpha) && is_finite(lrn.beta) &&
           is_finite(lrn.k);
}
constexpr bool is_reduction(const Reduction& by) {
    constexpr int kLastOp = 8, kLastIndexType = 3;
    return by.op >= 0 && by.op <= kLastOp && is_compute(by.compute) && is_switch(by.nan) && is_switch(by.indices) &&
           by.index_type >= 0 && by.index_type <= kLastIndexType;
}
constexpr bool is_op_tensor(const OpTensor& by) {
    return by.op >= kAdd && by.op <= kNot && is_compute(by.compute) && is_switch(by.nan);
}
// What is added to a variance, and the part of a new statistic.
constexpr bool is_epsilon(double epsilon) {
    return epsilon >= 0 && is_finite(epsilon);
}
// Of convolutions: forward, back to data, back to the filter. Each has its enumeration, from 0.
enum LastAlgorithm : int64_t { kLastForward = 7, kLastToData = 5, kLastToFilter = 6 };
constexpr bool is_algorithm(int64_t algorithm, LastAlgorithm last) {
    return algorithm >= 0 && algorithm <= last;
}
// Batch normalisation by each place of an image (0), or by channel (1, 2).
constexpr bool normalizes(int64_t mode, const Tensor& parameters, const Tensor& x) {
    if (mode < 0 || mode > 2 || !is_tensor(parameters) || x.rank < 2 || parameters.rank != x.rank) return false;
    if (mode != 0) return is_of_channels(parameters, x);
    bool fits = parameters.dims[0] == 1;
    for (int i = 1; fits && i < x.rank; ++i) fits = parameters.dims[i] == x.dims[i];
    return fits;
}

// How many places a window has, 0 for none. The numbers are of 32 bits.
constexpr int64_t places(int64_t size, int64_t window, int64_t before, int64_t after, int64_t step, int64_t dilation) {
    if (size < 1 || window < 1 || before < 0 || after < 0 || step < 1 || dilation < 1) return 0;
    const int64_t room = size + before + after - ((window - 1) * dilation + 1);
    return room < 0 ? 0 : room / step + 1;
}
constexpr int64_t places(const Convolution& convolution, int i, int64_t size, int64_t window) {
    return places(size, window, convolution.pads[i], convolution.pads_after[i], convolution.strides[i],
                  convolution.dilations[i]);
}
constexpr int64_t places(const Pooling& pooling, int i, int64_t size) {
    return places(size, pooling.window[i], pooling.pads[i], pooling.pads[i], pooling.strides[i], 1);
}

// Of x by w to y, or back.
template <typename Weights>
constexpr bool convolves(const Tensor& x, const Weights& weights, const Convolution& convolution, const Tensor& y) {
    const Tensor w = tensor_of(weights);
    if (!is_tensor(x) || !is_tensor(y) || !spanned(weights).fits) return false;
    if (convolution.rank < 1 || convolution.rank > kMostSpatial || convolution.rank + 2 != x.rank) return false;
    if (w.rank != x.rank || y.rank != x.rank || convolution.groups < 1) return false;
    if (w.dims[1] * convolution.groups != x.dims[1] || w.dims[0] % convolution.groups != 0) return false;
    if (y.dims[0] != x.dims[0] || y.dims[1] != w.dims[0]) return false;
    for (int i = 0; i < convolution.rank; ++i) {
        if (y.dims[i + 2] != places(convolution, i, x.dims[i + 2], w.dims[i + 2])) return false;
    }
    constexpr int kLastMath = 3;
    return is_switch(convolution.mode) && is_switch(convolution.reorder) && is_compute(convolution.compute) &&
           convolution.math >= 0 && convolution.math <= kLastMath;
}
// Each window has something of the image. There may be more or fewer than fit: TensorFlow pads one side alone so.
constexpr bool pools(const Tensor& x, const Pooling& pooling, const Tensor& y) {
    if (!is_tensor(x) || !is_tensor(y) || x.rank != y.rank) return false;
    if (pooling.rank < 1 || pooling.rank > kMostSpatial || pooling.rank + 2 != x.rank) return false;
    if (y.dims[0] != x.dims[0] || y.dims[1] != x.dims[1]) return false;
    for (int i = 0; i < pooling.rank; ++i) {
        if (pooling.window[i] < 1 || pooling.pads[i] < 0 || pooling.strides[i] < 1) return false;
        if (pooling.pads[i] >= pooling.window[i]) return false;
        if ((y.dims[i + 2] - 1) * pooling.strides[i] - pooling.pads[i] >= x.dims[i + 2]) return false;
    }
    return pooling.mode >= 0 && pooling.mode <= 3 && is_switch(pooling.nan);
}
// What the CPU end does of them.
template <typename Weights>
constexpr bool is_done(const Tensor& x, const Weights& w, const Convolution& convolution, const Tensor& y) {
    return is_real(x.type) && x.type == w.type && x.type == y.type && convolution.rank <= 3;
}

}  // namespace maths::cudnn
