// Batch normalisation, and reductions: what goes over all images.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dnn/dnn_cpu.h"
#include "dnn/tensors.h"

namespace maths::cudnn {
namespace {

using Numbers = std::vector<double>;
constexpr uint64_t kMostImages = 4, kMostParameters = 8;  // that a call has at once

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
    size_t of(size_t i) const { return i / static_cast<size_t>(space); }
};

// Calls `body` with the number of each place of an image and its parameter.
template <typename Body>
void for_images(const Normalized& all, const Work& work, Body body) {
    for (int64_t n = 0; n < all.x.dims[0] && !work.stopped(); ++n) body(n);
}

Numbers parameters(const Tensor& tensor, uint64_t data) {
    return image<double>(tensor, data, 0);
}

struct Statistics {
    Numbers mean, variance;  // of the batch itself
};
Statistics statistics(const Normalized& all, const Tensor& x, uint64_t data, const Work& work) {
    Statistics s{Numbers(all.parameters), Numbers(all.parameters)};
    const auto sum = [&](Numbers& to, auto term) {
        for_images(all, work, [&](int64_t n) {
            const Numbers numbers = image<double>(x, data, n);
            for (size_t i = 0; i < numbers.size(); ++i) to[all.of(i)] += term(numbers[i], all.of(i));
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
    const Numbers scales = parameters(m.bnDesc, m.scale), biases = parameters(m.bnDesc, m.bias);
    const Blend blending = blend(m.alpha, m.beta, m.yDesc);
    for_images(all, work, [&](int64_t n) {
        Numbers numbers = image<double>(m.xDesc, m.x, n);
        const Numbers z = beside.adds ? image<double>(beside.z, beside.z_data, n) : Numbers();
        for (size_t i = 0; i < numbers.size(); ++i) {
            const size_t p = all.of(i);
            double& value = numbers[i];
            value = (value - mean[p]) * inverse[p] * scales[p] + biases[p];
            if (beside.adds) value += z[i];
            if (beside.rectifies && value < 0) value = 0;
        }
        store(m.yDesc, m.y, n, numbers.data(), blending);
    });
}

template <typename Message>
CUresult train(const Message& m, const Beside& beside, Work& work) {
    const Normalized all(m.mode, m.xDesc);
    reserve_images(work, kMostImages, kMostParameters * all.parameters, m.xDesc);
    const Statistics batch = statistics(all, m.xDesc, m.x, work);
    const Numbers inverse = inverse_deviation(batch.variance, m.epsilon);
    normalize_all(all, m, batch.mean, inverse, beside, work);
    if (work.stopped()) return CUDA_SUCCESS;
    const double unbiased = all.count > 1 ? all.count / (all.count - 1) : 1;
    const auto put = [&](uint64_t to, const Numbers& from, Blend blending) {
        if (to) store(m.bnDesc, to, 0, from.data(), blending);
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
        return {parameters(m.bnDesc, m.savedMean), parameters(m.bnDesc, m.savedInvVariance)};
    }
    const Statistics batch = statistics(all, m.xDesc, m.x, work);
    return {batch.mean, inverse_deviation(batch.variance, m.epsilon)};
}

// `derivative` gives an image of what came back, before the normalisation.
template <typename Message, typename Derivative>
CUresult back(const Message& m, Derivative derivative, Work& work) {
    const Normalized all(m.mode, m.xDesc);
    reserve_images(work, kMostImages, kMostParameters * all.parameters, m.xDesc);
    const Saved s = saved(all, m, work);
    const Numbers scales = parameters(m.bnDesc, m.scale);
    Numbers d_scale(all.parameters), d_bias(all.parameters);
    for_images(all, work, [&](int64_t n) {
        const Numbers x = image<double>(m.xDesc, m.x, n), dy = derivative(n);
        for (size_t i = 0; i < x.size(); ++i) {
            const size_t p = all.of(i);
            d_scale[p] += dy[i] * (x[i] - s.mean[p]) * s.inverse[p];
            d_bias[p] += dy[i];
        }
    });
    const Blend blending = blend(m.alphaData, m.betaData, m.dxDesc);
    for_images(all, work, [&](int64_t n) {
        const Numbers x = image<double>(m.xDesc, m.x, n);
        Numbers dx = derivative(n);
        for (size_t i = 0; i < x.size(); ++i) {
            const size_t p = all.of(i);
            const double normal = (x[i] - s.mean[p]) * s.inverse[p];
            dx[i] = scales[p] * s.inverse[p] * (dx[i] - (d_bias[p] + normal * d_scale[p]) / all.count);
        }
        store(m.dxDesc, m.dx, n, dx.data(), blending);
    });
    if (work.stopped()) return CUDA_SUCCESS;
    const Blend of_parameters = blend(m.alphaParam, m.betaParam, m.dxDesc);
    store(m.bnDesc, m.dScale, 0, d_scale.data(), of_parameters);
    store(m.bnDesc, m.dBias, 0, d_bias.data(), of_parameters);
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
    reserve_images(work, kMostImages, kMostParameters * all.parameters, m.xDesc);
    const Numbers inverse = inverse_deviation(parameters(m.bnDesc, m.variance), m.epsilon);
    normalize_all(all, m, parameters(m.bnDesc, m.mean), inverse, {}, work);
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
        m, [&](int64_t n) { return image<double>(m.dyDesc, m.dy, n); }, work);
}

// Where the rectifier gave 0 nothing comes back; the rest is also what was added's.
CUresult run(normalize_back_ex& m, Type, Work& work) {
    const auto derivative = [&](int64_t n) {
        Numbers dy = image<double>(m.dyDesc, m.dy, n);
        if (m.ops == 0) return dy;
        const Numbers y = image<double>(m.yDesc, m.y, n);
        for (size_t i = 0; i < dy.size(); ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
        return dy;
    };
    const int64_t images = m.ops == 2 ? m.xDesc.dims[0] : 0;
    const CUresult result = back(m, derivative, work);
    for (int64_t n = 0; n < images && !work.stopped(); ++n) store(m.dzDesc, m.dz, n, derivative(n).data(), {});
    return result;
}

CUresult run(reduce& m, Type, Work& work) {
    const int32_t op = m.reduceTensorDesc.op;
    const auto own = [&](int i) { return m.cDesc.dims[i] == 1 ? 0 : 1; };
    const int64_t volume = volume_of(m.cDesc);
    reserve_images(work, 1, product(length(volume), length(m.cDesc.dims[0])), m.aDesc);
    Numbers result(static_cast<size_t>(volume * m.cDesc.dims[0]), start_of(op));
    double terms = 1;
    for (int i = 0; i < m.aDesc.rank; ++i) terms *= own(i) ? 1 : static_cast<double>(m.aDesc.dims[i]);
    for (int64_t n = 0; n < m.aDesc.dims[0] && !work.stopped(); ++n) {
        const Numbers numbers = image<double>(m.aDesc, m.A, n);
        for (size_t i = 0; i < numbers.size(); ++i) {
            int64_t rest = static_cast<int64_t>(i), to = 0, step = 1;
            for (int d = m.aDesc.rank - 1; d >= 1; --d) {
                to += own(d) * (rest % m.aDesc.dims[d]) * step;
                rest /= m.aDesc.dims[d], step *= m.cDesc.dims[d];
            }
            double& place = result[static_cast<size_t>(to + own(0) * n * volume)];
            place = reduced(op, place, numbers[i]);
        }
    }
    for (double& each : result) each = op == kMean ? each / terms : op == kNorm2 ? std::sqrt(each) : each;
    store_whole(m.cDesc, m.C, result.data(), blend(m.alpha, m.beta, m.cDesc));
    return CUDA_SUCCESS;
}

}  // namespace maths::cudnn
