// Batch normalisation, and reductions: what goes over all images.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dnn/dnn_cpu.h"
#include "dnn/tensors.h"

namespace maths::cudnn {
namespace {

using Numbers = std::vector<double>;

// How a batch's numbers belong to parameters: one a place of the image, or one a channel.
struct Normalized {
    const Tensor& x;
    int64_t space;  // numbers of an image that share a parameter
    double count;   // of a parameter
    size_t parameters;

    Normalized(int64_t mode, const Tensor& tensor)
        : x(tensor),
          space(mode == 0 ? 1 : space_of(tensor)),
          count(static_cast<double>(tensor.dims[0]) * static_cast<double>(space)),
          parameters(static_cast<size_t>(volume_of(tensor) / space)) {}
    // For so many pieces and so many of a parameter's numbers that a call has at once.
    void reserve(Work& work, uint64_t pieces, uint64_t lists) const { reserve_pieces(work, pieces, lists * parameters, x); }
    // The parameter of a piece's i-th number.
    size_t of(Piece piece, size_t i) const { return (static_cast<size_t>(piece.first) + i) / static_cast<size_t>(space); }
};

// All of them.
Numbers parameters(const Tensor& tensor, uint64_t data, const Work& work) {
    Numbers numbers(static_cast<size_t>(volume_of(tensor)));
    for_pieces(tensor, work, [&](Piece piece) { load(tensor, data, tensor, piece, numbers.data() + piece.first); });
    return numbers;
}
void store_parameters(const Tensor& tensor, uint64_t data, const Numbers& numbers, Blend blending, const Work& work) {
    for_pieces(tensor, work, [&](Piece piece) { store(tensor, data, piece, numbers.data() + piece.first, blending); });
}

struct Statistics {
    Numbers mean, variance;  // of the batch itself
};
Statistics statistics(const Normalized& all, const Tensor& x, uint64_t data, const Work& work) {
    Statistics s{Numbers(all.parameters), Numbers(all.parameters)};
    const auto sum = [&](Numbers& to, auto term) {
        for_pieces(all.x, work, [&](Piece piece) {
            const Numbers numbers = numbers_of<double>(x, data, piece);
            for (size_t i = 0; i < numbers.size(); ++i) {
                const size_t p = all.of(piece, i);
                to[p] += term(numbers[i], p);
            }
        });
        for (double& each : to) each /= all.count;
    };
    sum(s.mean, [](double value, size_t) { return value; });
    sum(s.variance, [&](double value, size_t p) { return (value - s.mean[p]) * (value - s.mean[p]); });
    return s;
}

Numbers inverse_deviation(const Numbers& variance, double epsilon) {
    Numbers result(variance.size());
    std::transform(variance.begin(), variance.end(), result.begin(),
                   [&](double each) { return 1 / std::sqrt(each + epsilon); });
    return result;
}

// What is done beside the normalisation.
struct Beside {
    bool adds = false, rectifies = false;
    Tensor z{};
    uint64_t z_data = 0;
};

template <typename Message>
void normalize_all(const Normalized& all, const Message& m, const Numbers& mean, const Numbers& inverse,
                   const Beside& beside, Work& work) {
    const Numbers scales = parameters(m.bnDesc, m.scale, work), biases = parameters(m.bnDesc, m.bias, work);
    const Blend blending = blend(m.alpha, m.beta, m.yDesc);
    for_pieces(all.x, work, [&](Piece piece) {
        Numbers numbers = numbers_of<double>(m.xDesc, m.x, piece);
        const Numbers z = beside.adds ? numbers_of<double>(beside.z, beside.z_data, piece) : Numbers();
        for (size_t i = 0; i < numbers.size(); ++i) {
            const size_t p = all.of(piece, i);
            double& value = numbers[i];
            value = (value - mean[p]) * inverse[p] * scales[p] + biases[p];
            if (beside.adds) value += z[i];
            if (beside.rectifies && value < 0) value = 0;
        }
        store(m.yDesc, m.y, piece, numbers.data(), blending);
    });
}

template <typename Message>
CUresult train(const Message& m, const Beside& beside, Work& work) {
    const Normalized all(m.mode, m.xDesc);
    all.reserve(work, beside.adds ? 2 : 1, 5);
    const Statistics batch = statistics(all, m.xDesc, m.x, work);
    const Numbers inverse = inverse_deviation(batch.variance, m.epsilon);
    normalize_all(all, m, batch.mean, inverse, beside, work);
    if (work.stopped()) return CUDA_SUCCESS;
    const double unbiased = all.count > 1 ? all.count / (all.count - 1) : 1;
    const auto put = [&](uint64_t to, const Numbers& from, Blend blending) {
        if (to) store_parameters(m.bnDesc, to, from, blending, work);
    };
    put(m.runningMean, batch.mean, {m.factor, 1 - m.factor});
    put(m.runningVariance, batch.variance, {m.factor * unbiased, 1 - m.factor});
    put(m.saveMean, batch.mean, {});
    put(m.saveInvVariance, inverse, {});
    return CUDA_SUCCESS;
}

// Of the forward step, as it was saved or once more.
struct Saved {
    Numbers mean, inverse;
};
template <typename Message>
Saved saved(const Normalized& all, const Message& m, const Work& work) {
    if (m.savedMean && m.savedInvVariance) {
        return {parameters(m.bnDesc, m.savedMean, work), parameters(m.bnDesc, m.savedInvVariance, work)};
    }
    const Statistics batch = statistics(all, m.xDesc, m.x, work);
    return {batch.mean, inverse_deviation(batch.variance, m.epsilon)};
}

// `derivative` gives a piece of what came back, before the normalisation; `pass_on` takes it before dx is written, which may
// lie where dy does.
template <typename Message, typename Derivative, typename PassOn>
CUresult back(const Message& m, Derivative derivative, PassOn pass_on, Work& work) {
    const Normalized all(m.mode, m.xDesc);
    all.reserve(work, 3, 5);  // of x, what came back, and what was given on
    const Saved s = saved(all, m, work);
    const Numbers scales = parameters(m.bnDesc, m.scale, work);
    Numbers d_scale(all.parameters), d_bias(all.parameters);
    for_pieces(all.x, work, [&](Piece piece) {
        const Numbers x = numbers_of<double>(m.xDesc, m.x, piece), dy = derivative(piece);
        for (size_t i = 0; i < x.size(); ++i) {
            const size_t p = all.of(piece, i);
            d_scale[p] += dy[i] * (x[i] - s.mean[p]) * s.inverse[p];
            d_bias[p] += dy[i];
        }
    });
    const Blend blending = blend(m.alphaData, m.betaData, m.dxDesc);
    for_pieces(all.x, work, [&](Piece piece) {
        const Numbers x = numbers_of<double>(m.xDesc, m.x, piece);
        Numbers dx = derivative(piece);
        pass_on(piece, dx);
        for (size_t i = 0; i < x.size(); ++i) {
            const size_t p = all.of(piece, i);
            const double normal = (x[i] - s.mean[p]) * s.inverse[p];
            dx[i] = scales[p] * s.inverse[p] * (dx[i] - (d_bias[p] + normal * d_scale[p]) / all.count);
        }
        store(m.dxDesc, m.dx, piece, dx.data(), blending);
    });
    if (work.stopped()) return CUDA_SUCCESS;
    const Blend of_parameters = blend(m.alphaParam, m.betaParam, m.dxDesc);
    store_parameters(m.bnDesc, m.dScale, d_scale, of_parameters, work);
    store_parameters(m.bnDesc, m.dBias, d_bias, of_parameters, work);
    return CUDA_SUCCESS;
}

enum Operation : int32_t {
    kSum = 0,
    kProduct = 1,
    kSmallest = 2,
    kLargest = 3,
    kLargestAbsolute = 4,
    kMean = 5,
    kNorm1 = 6,
    kNorm2 = 7,
    kProductWithoutZeros = 8,
};

double start_of(int32_t op) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (op == kProduct || op == kProductWithoutZeros) return 1;
    return op == kSmallest ? kInfinity : op == kLargest ? -kInfinity : 0;
}

double reduced(int32_t op, double so_far, double value) {
    switch (op) {
        case kProduct:
            return so_far * value;
        case kSmallest:
            return std::isnan(value) ? value : std::min(so_far, value);
        case kLargest:
            return std::isnan(value) ? value : std::max(so_far, value);
        case kLargestAbsolute:
            return std::isnan(value) ? value : std::max(so_far, std::abs(value));
        case kNorm1:
            return so_far + std::abs(value);
        case kNorm2:
            return so_far + value * value;
        case kProductWithoutZeros:
            return value == 0 ? so_far : so_far * value;
        default:
            return so_far + value;
    }
}

}  // namespace

CUresult run(normalize& m, Type, Work& work) {
    const Normalized all(m.mode, m.xDesc);
    all.reserve(work, 1, 4);
    const Numbers inverse = inverse_deviation(parameters(m.bnDesc, m.variance, work), m.epsilon);
    normalize_all(all, m, parameters(m.bnDesc, m.mean, work), inverse, {}, work);
    return CUDA_SUCCESS;
}

CUresult run(normalize_training& m, Type, Work& work) {
    return train(m, {}, work);
}

CUresult run(normalize_training_ex& m, Type, Work& work) {
    return train(m, {m.ops == 2, m.ops != 0, m.zDesc, m.z}, work);
}

CUresult run(normalize_back& m, Type, Work& work) {
    return back(
        m, [&](Piece piece) { return numbers_of<double>(m.dyDesc, m.dy, piece); }, [](Piece, const Numbers&) {}, work);
}

// Where the rectifier gave 0 nothing comes back; the rest is also what was added's.
CUresult run(normalize_back_ex& m, Type, Work& work) {
    const auto derivative = [&](Piece piece) {
        Numbers dy = numbers_of<double>(m.dyDesc, m.dy, piece);
        if (m.ops == 0) return dy;
        const Numbers y = numbers_of<double>(m.yDesc, m.y, piece);
        for (size_t i = 0; i < dy.size(); ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
        return dy;
    };
    const auto pass_on = [&](Piece piece, const Numbers& dy) {
        if (m.ops == 2) store(m.dzDesc, m.dz, piece, dy.data(), {});
    };
    return back(m, derivative, pass_on, work);
}

CUresult run(reduce& m, Type, Work& work) {
    const int32_t op = m.reduceTensorDesc.op;
    const auto own = [&](int i) { return m.cDesc.dims[i] == 1 ? 0 : 1; };
    const int64_t volume = volume_of(m.cDesc);
    reserve_pieces(work, 1, product(length(volume), length(m.cDesc.dims[0])), m.aDesc);
    Numbers result(static_cast<size_t>(volume * m.cDesc.dims[0]), start_of(op));
    double terms = 1;
    for (int i = 0; i < m.aDesc.rank; ++i) terms *= own(i) ? 1 : static_cast<double>(m.aDesc.dims[i]);
    for_pieces(m.aDesc, work, [&](Piece piece) {
        const Numbers numbers = numbers_of<double>(m.aDesc, m.A, piece);
        for (size_t i = 0; i < numbers.size(); ++i) {
            int64_t rest = piece.first + static_cast<int64_t>(i), to = 0, step = 1;
            for (int d = m.aDesc.rank - 1; d >= 1; --d) {
                to += own(d) * (rest % m.aDesc.dims[d]) * step;
                rest /= m.aDesc.dims[d], step *= m.cDesc.dims[d];
            }
            double& place = result[static_cast<size_t>(to + own(0) * piece.image * volume)];
            place = reduced(op, place, numbers[i]);
        }
    });
    for (double& each : result) each = op == kMean ? each / terms : op == kNorm2 ? std::sqrt(each) : each;
    const Blend blending = blend(m.alpha, m.beta, m.cDesc);
    for_pieces(m.cDesc, work, [&](Piece piece) {
        store(m.cDesc, m.C, piece, result.data() + piece.image * volume + piece.first, blending);
    });
    return CUDA_SUCCESS;
}

}  // namespace maths::cudnn
