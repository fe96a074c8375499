#include "dnn/tensors.h"

#include <algorithm>
#include <cmath>

#include "number.h"

namespace maths::cudnn {
namespace {

template <typename Body>
void of_element(int32_t type, Body body) {
    switch (type) {
        case kFloat:
            return body(static_cast<float*>(nullptr));
        case kDouble:
            return body(static_cast<double*>(nullptr));
        case kHalf:
            return body(static_cast<Half*>(nullptr));
        case kBfloat16:
            return body(static_cast<Bfloat16*>(nullptr));
        default:
            return;
    }
}

// Calls `body` with the place of each row of a piece of an image of `dims`, how much of the row belongs to it and the step in
// it. A row is along the last dimension that is more than 1.
template <typename Body>
void for_rows(const Tensor& tensor, const Tensor& dims, Piece piece, Body body) {
    const auto step = [&](int i) { return tensor.dims[i] == 1 ? 0 : tensor.strides[i]; };
    int last = dims.rank - 1;
    while (last > 1 && dims.dims[last] == 1) --last;
    const int64_t length = last >= 1 ? dims.dims[last] : 1, apart = last >= 1 ? step(last) : 0;
    int64_t at[kMostDims] = {}, place = piece.image * step(0), rest = piece.first / length;
    for (int i = last - 1; i >= 1; --i) {
        at[i] = rest % dims.dims[i], rest /= dims.dims[i];
        place += at[i] * step(i);
    }
    int64_t column = piece.first % length;
    for (int64_t left = piece.count; left > 0;) {
        const int64_t count = std::min(length - column, left);
        body(place + column * apart, count, apart);
        left -= count, column = 0;
        for (int i = last - 1; i >= 1; --i) {
            place += step(i);
            if (++at[i] < dims.dims[i]) break;
            place -= at[i] * step(i);
            at[i] = 0;
        }
    }
}

template <typename T, typename A>
void read(const T* from, int64_t step, int64_t count, A* to) {
    if (step == 1) {
        for (int64_t i = 0; i < count; ++i) to[i] = static_cast<A>(from[i]);
    } else {
        for (int64_t i = 0; i < count; ++i) to[i] = static_cast<A>(from[i * step]);
    }
}

template <typename T, typename A>
void write(T* to, int64_t step, int64_t count, const A* from, Blend blend) {
    const A alpha = static_cast<A>(blend.alpha), beta = static_cast<A>(blend.beta);
    if (beta == 0) {
        for (int64_t i = 0; i < count; ++i) to[i * step] = static_cast<T>(alpha * from[i]);
    } else {
        for (int64_t i = 0; i < count; ++i) {
            to[i * step] = static_cast<T>(alpha * from[i] + beta * static_cast<A>(to[i * step]));
        }
    }
}

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

}  // namespace

template <typename A>
void load(const Tensor& tensor, uint64_t data, const Tensor& as, Piece piece, A* to) {
    of_element(tensor.type, [&]<typename T>(T*) {
        for_rows(tensor, as, piece, [&](int64_t place, int64_t count, int64_t step) {
            read(at<const T>(data) + place, step, count, to);
            to += count;
        });
    });
}
template void load(const Tensor&, uint64_t, const Tensor&, Piece, float*);
template void load(const Tensor&, uint64_t, const Tensor&, Piece, double*);

template <typename A>
void store(const Tensor& tensor, uint64_t data, Piece piece, const A* from, Blend blend) {
    of_element(tensor.type, [&]<typename T>(T*) {
        for_rows(tensor, tensor, piece, [&](int64_t place, int64_t count, int64_t step) {
            write(at<T>(data) + place, step, count, from, blend);
            from += count;
        });
    });
}
template void store(const Tensor&, uint64_t, Piece, const float*, Blend);
template void store(const Tensor&, uint64_t, Piece, const double*, Blend);

double activated(const Activation& activation, double x) {
    const double coefficient = activation.coefficient;
    if (std::isnan(x)) return x;
    switch (activation.mode) {
        case kSigmoid:
            return sigmoid(x);
        case kRelu:
            return std::max(x, 0.0);
        case kTanh:
            return std::tanh(x);
        case kClippedRelu:
            return std::min(std::max(x, 0.0), coefficient);
        case kElu:
            return x > 0 ? x : coefficient * std::expm1(x);
        case kSwish:
            return x * sigmoid(activation.swish_beta * x);
        default:
            return x;
    }
}

double activated_back(const Activation& activation, double x, double y, double dy) {
    const double coefficient = activation.coefficient;
    switch (activation.mode) {
        case kSigmoid:
            return dy * y * (1 - y);
        case kRelu:
            return x > 0 ? dy : 0;
        case kTanh:
            return dy * (1 - y * y);
        case kClippedRelu:
            return x > 0 && x < coefficient ? dy : 0;
        case kElu:
            return x > 0 ? dy : dy * (y + coefficient);
        case kSwish: {
            const double beta = activation.swish_beta, gate = sigmoid(beta * x);
            return dy * (gate + beta * x * gate * (1 - gate));
        }
        default:
            return dy;
    }
}

}  // namespace maths::cudnn
