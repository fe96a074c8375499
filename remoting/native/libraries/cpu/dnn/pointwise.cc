// What is done to each number of a tensor, or to a few of one place: activations, sums, scaling, softmax, response
// normalisation.
#include <algorithm>
#include <cmath>

#include "dnn/dnn_cpu.h"
#include "dnn/tensors.h"
#include "number.h"

namespace maths::cudnn {
namespace {

// Calls `make` with each image's number, which gives its numbers, and stores them.
template <typename Make, typename... Described>
CUresult by_image(const Tensor& to, uint64_t data, Blend blending, Work& work, Make make, const Described&... from) {
    constexpr uint64_t kMostImages = 5;  // of response normalisation's way back
    reserve_images(work, kMostImages, 0, to, from...);
    return in_precision(
        [&]<typename A>(A number) {
            for (int64_t n = 0; n < to.dims[0] && !work.stopped(); ++n) {
                const std::vector<A> numbers = make(number, n);
                store(to, data, n, numbers.data(), blending);
            }
        },
        to, from...);
}

// `count` numbers, `step` apart, in `lists` lists: what softmax goes over.
struct Lists {
    int64_t lists, count, step;
};
Lists lists_of(int64_t mode, const Tensor& tensor) {
    if (mode == 0) return {1, volume_of(tensor), 1};
    return {space_of(tensor), tensor.dims[1], space_of(tensor)};
}

enum Softmax : int64_t { kFast = 0, kAccurate = 1, kLog = 2 };

template <typename A>
void softmax_of(A* x, int64_t count, int64_t step, bool log) {
    A most = x[0], sum = 0;
    for (int64_t i = 1; i < count; ++i) most = std::max(most, x[i * step]);
    for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i * step] - most);
    const A log_sum = std::log(sum);
    for (int64_t i = 0; i < count; ++i) {
        const A shifted = x[i * step] - most;
        x[i * step] = log ? shifted - log_sum : std::exp(shifted) / sum;
    }
}

template <typename A>
void softmax_back_of(const A* y, A* dy, int64_t count, int64_t step, bool log) {
    A sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += log ? dy[i * step] : dy[i * step] * y[i * step];
    for (int64_t i = 0; i < count; ++i) {
        A& d = dy[i * step];
        d = log ? d - std::exp(y[i * step]) * sum : y[i * step] * (d - sum);
    }
}

// Of response normalisation: k + alpha / n * the sum of the squares of the neighbouring channels.
template <typename A>
std::vector<A> energies(const Lrn& lrn, const Tensor& tensor, const std::vector<A>& x) {
    const int64_t space = space_of(tensor), channels = tensor.dims[1], n = lrn.n;
    std::vector<A> result(x.size());
    for (int64_t c = 0; c < channels; ++c) {
        const int64_t first = std::max<int64_t>(0, c - (n - 1) / 2), last = std::min(channels, c + n / 2 + 1);
        for (int64_t i = 0; i < space; ++i) {
            double sum = 0;
            for (int64_t j = first; j < last; ++j) {
                const auto at = static_cast<size_t>(j * space + i);
                sum += static_cast<double>(x[at]) * x[at];
            }
            result[static_cast<size_t>(c * space + i)] =
                static_cast<A>(lrn.k + lrn.alpha / static_cast<double>(n) * sum);
        }
    }
    return result;
}

double combined(int32_t op, double a, double b) {
    switch (op) {
        case kAdd:
            return a + b;
        case kMul:
            return a * b;
        case kMin:
            return std::min(a, b);
        case kMax:
            return std::max(a, b);
        case kSqrt:
            return std::sqrt(a);
        default:
            return 1 - a;
    }
}

}  // namespace

CUresult run(activate& m, Type, Work& work) {
    return by_image(m.yDesc, m.y, blend(m.alpha, m.beta, m.yDesc), work, [&]<typename A>(A, int64_t n) {
        std::vector<A> x = image<A>(m.xDesc, m.x, n);
        for (A& each : x) each = static_cast<A>(activated(m.activationDesc, each));
        return x;
    });
}

CUresult run(activate_back& m, Type, Work& work) {
    return by_image(m.dxDesc, m.dx, blend(m.alpha, m.beta, m.dxDesc), work, [&]<typename A>(A, int64_t n) {
        const std::vector<A> x = image<A>(m.xDesc, m.x, n), y = image<A>(m.yDesc, m.y, n);
        std::vector<A> dx = image<A>(m.dyDesc, m.dy, n);
        for (size_t i = 0; i < dx.size(); ++i) {
            dx[i] = static_cast<A>(activated_back(m.activationDesc, x[i], y[i], dx[i]));
        }
        return dx;
    });
}

CUresult run(softmax& m, Type, Work& work) {
    return by_image(m.yDesc, m.y, blend(m.alpha, m.beta, m.yDesc), work, [&]<typename A>(A, int64_t n) {
        std::vector<A> x = image<A>(m.xDesc, m.x, n);
        const Lists each = lists_of(m.mode, m.xDesc);
        for (int64_t i = 0; i < each.lists; ++i) softmax_of(x.data() + i, each.count, each.step, m.algo == kLog);
        return x;
    });
}

CUresult run(softmax_back& m, Type, Work& work) {
    return by_image(m.dxDesc, m.dx, blend(m.alpha, m.beta, m.dxDesc), work, [&]<typename A>(A, int64_t n) {
        const std::vector<A> y = image<A>(m.yDesc, m.y, n);
        std::vector<A> dx = image<A>(m.dyDesc, m.dy, n);
        const Lists each = lists_of(m.mode, m.yDesc);
        for (int64_t i = 0; i < each.lists; ++i) {
            softmax_back_of(y.data() + i, dx.data() + i, each.count, each.step, m.algo == kLog);
        }
        return dx;
    });
}

CUresult run(lrn& m, Type, Work& work) {
    return by_image(m.yDesc, m.y, blend(m.alpha, m.beta, m.yDesc), work, [&]<typename A>(A, int64_t n) {
        std::vector<A> x = image<A>(m.xDesc, m.x, n);
        const std::vector<A> energy = energies(m.normDesc, m.xDesc, x);
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<A>(x[i] * std::pow(energy[i], -m.normDesc.beta));
        return x;
    });
}

CUresult run(lrn_back& m, Type, Work& work) {
    const Lrn& d = m.normDesc;
    const int64_t space = space_of(m.xDesc), channels = m.xDesc.dims[1], window = d.n;
    return by_image(m.dxDesc, m.dx, blend(m.alpha, m.beta, m.dxDesc), work, [&]<typename A>(A, int64_t n) {
        const std::vector<A> x = image<A>(m.xDesc, m.x, n), y = image<A>(m.yDesc, m.y, n);
        const std::vector<A> energy = energies(d, m.xDesc, x);
        std::vector<A> dx = image<A>(m.dyDesc, m.dy, n), share(dx.size());
        for (size_t i = 0; i < dx.size(); ++i) share[i] = dx[i] * y[i] / energy[i];
        for (int64_t c = 0; c < channels; ++c) {
            // The channels whose neighbour this one is.
            const int64_t first = std::max<int64_t>(0, c - window / 2), last = std::min(channels, c + (window - 1) / 2 + 1);
            for (int64_t i = 0; i < space; ++i) {
                const auto own = static_cast<size_t>(c * space + i);
                double sum = 0;
                for (int64_t j = first; j < last; ++j) sum += share[static_cast<size_t>(j * space + i)];
                dx[own] = static_cast<A>(dx[own] * std::pow(energy[own], -d.beta) -
                                         2 * d.alpha * d.beta / static_cast<double>(window) * x[own] * sum);
            }
        }
        return dx;
    });
}

CUresult run(add& m, Type, Work& work) {
    return by_image(m.cDesc, m.C, blend(m.alpha, m.beta, m.cDesc), work,
                    [&]<typename A>(A, int64_t n) { return image<A>(m.aDesc, m.A, m.cDesc, n); });
}

CUresult run(combine& m, Type, Work& work) {
    const double alpha1 = scale(m.alpha1, m.cDesc), alpha2 = scale(m.alpha2, m.cDesc);
    return by_image(
        m.cDesc, m.C, {1, scale(m.beta, m.cDesc)}, work,
        [&]<typename A>(A, int64_t n) {
            std::vector<A> a = image<A>(m.aDesc, m.A, n);
            const std::vector<A> b =
                m.opTensorDesc.op >= kSqrt ? std::vector<A>(a.size()) : image<A>(m.bDesc, m.B, m.cDesc, n);
            for (size_t i = 0; i < a.size(); ++i) {
                a[i] = static_cast<A>(combined(m.opTensorDesc.op, alpha1 * a[i], alpha2 * b[i]));
            }
            return a;
        },
        m.aDesc);
}

CUresult run(multiply& m, Type, Work& work) {
    return by_image(m.yDesc, m.y, {scale(m.alpha, m.yDesc), 0}, work,
                    [&]<typename A>(A, int64_t n) { return image<A>(m.yDesc, m.y, n); });
}

CUresult run(fill& m, Type, Work& work) {
    const double number = get(type_of(m.yDesc), m.value.bytes, 0).real();
    return by_image(m.yDesc, m.y, {}, work, [&]<typename A>(A, int64_t) {
        return std::vector<A>(static_cast<size_t>(volume_of(m.yDesc)), static_cast<A>(number));
    });
}

CUresult run(transform& m, Type, Work& work) {
    return by_image(
        m.yDesc, m.y, blend(m.alpha, m.beta, m.yDesc), work,
        [&]<typename A>(A, int64_t n) { return image<A>(m.xDesc, m.x, n); }, m.xDesc);
}

}  // namespace maths::cudnn
