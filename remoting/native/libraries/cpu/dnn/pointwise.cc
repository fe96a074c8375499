// What is done to each number of a tensor, or to a few of one place: activations, sums, scaling, softmax, response
// normalisation.
#include <algorithm>
#include <cmath>

#include "dnn/dnn_cpu.h"
#include "dnn/tensors.h"
#include "number.h"

namespace maths::cudnn {
namespace {

// Calls `make` with each piece, which gives its numbers, and stores them.
template <typename Make, typename... Described>
CUresult by_piece(const Tensor& to, uint64_t data, Blend blending, Work& work, Make make, const Described&... from) {
    constexpr uint64_t kMostPieces = 3;
    reserve_pieces(work, kMostPieces, 0, to);
    return in_precision(
        [&]<typename A>(A number) {
            for_pieces(to, work, [&](Piece piece) {
                const std::vector<A> numbers = make(number, piece);
                store(to, data, piece, numbers.data(), blending);
            });
        },
        to, from...);
}

// What an operation goes over: `count` numbers, `space` apart, at each of so many places of an image.
struct Lists {
    int64_t count, space;
};
Lists lists_of(int64_t mode, const Tensor& tensor) {
    if (mode == 0) return {volume_of(tensor), 1};
    return {tensor.dims[1], space_of(tensor)};
}

// Those of some places that lie next to each other: their numbers are `width` apart.
struct Columns {
    int64_t image, first, width;
};
template <typename Body>
void for_parts(Lists lists, Columns columns, Body body) {
    if (columns.width == lists.space) return body(Piece{columns.image, 0, lists.count * lists.space}, int64_t{0});
    for (int64_t k = 0; k < lists.count; ++k) {
        body(Piece{columns.image, k * lists.space + columns.first, columns.width}, k * columns.width);
    }
}
template <typename A>
std::vector<A> load_columns(const Tensor& tensor, uint64_t data, Lists lists, Columns columns) {
    std::vector<A> numbers(static_cast<size_t>(lists.count * columns.width));
    for_parts(lists, columns, [&](Piece piece, int64_t to) { load(tensor, data, tensor, piece, numbers.data() + to); });
    return numbers;
}

// The same by columns of lists.
template <typename Make>
CUresult by_columns(const Tensor& to, uint64_t data, Blend blending, Lists lists, Work& work, Make make) {
    constexpr uint64_t kMostAtOnce = 5;  // of response normalisation's way back
    const uint64_t most_numbers = static_cast<uint64_t>(std::max(lists.count, std::min(kMostOfPiece, volume_of(to))));
    work.reserve(product(product(kMostAtOnce, most_numbers), sizeof(double)));
    return in_precision(
        [&]<typename A>(A number) {
            const int64_t most = std::clamp<int64_t>(kMostOfPiece / lists.count, 1, lists.space);
            for (int64_t n = 0; n < to.dims[0]; ++n) {
                for (int64_t first = 0; first < lists.space; first += most) {
                    if (work.stopped()) return;
                    const Columns columns{n, first, std::min(most, lists.space - first)};
                    const std::vector<A> numbers = make(number, columns);
                    if (work.stopped()) return;
                    for_parts(lists, columns, [&](Piece piece, int64_t from) {
                        store(to, data, piece, numbers.data() + from, blending);
                    });
                }
            }
        },
        to);
}

enum Softmax : int64_t { kFast = 0, kAccurate = 1, kLog = 2 };

template <typename A>
void softmax_of(A* x, int64_t count, int64_t step, bool log, const Work& work) {
    A most = x[0], sum = 0;
    for_numbers(count, work, [&](int64_t i) { most = std::max(most, x[i * step]); });
    for_numbers(count, work, [&](int64_t i) { sum += std::exp(x[i * step] - most); });
    const A log_sum = std::log(sum);
    for_numbers(count, work, [&](int64_t i) {
        const A shifted = x[i * step] - most;
        x[i * step] = log ? shifted - log_sum : std::exp(shifted) / sum;
    });
}

template <typename A>
void softmax_back_of(const A* y, A* dy, int64_t count, int64_t step, bool log, const Work& work) {
    A sum = 0;
    for_numbers(count, work, [&](int64_t i) { sum += log ? dy[i * step] : dy[i * step] * y[i * step]; });
    for_numbers(count, work, [&](int64_t i) {
        A& d = dy[i * step];
        d = log ? d - std::exp(y[i * step]) * sum : y[i * step] * (d - sum);
    });
}

// Of response normalisation: k + alpha / n * the sum of the squares of the neighbouring channels.
template <typename A>
std::vector<A> energies(const Lrn& lrn, int64_t channels, int64_t width, const std::vector<A>& x, const Work& work) {
    const int64_t n = lrn.n;
    std::vector<A> result(x.size());
    for_numbers(channels * width, work, [&](int64_t at) {
        const int64_t c = at / width, i = at % width;
        const int64_t first = std::max<int64_t>(0, c - (n - 1) / 2), last = std::min(channels, c + n / 2 + 1);
        double sum = 0;
        for (int64_t j = first; j < last; ++j) {
            const double neighbour = x[static_cast<size_t>(j * width + i)];
            sum += neighbour * neighbour;
        }
        result[static_cast<size_t>(at)] = static_cast<A>(lrn.k + lrn.alpha / static_cast<double>(n) * sum);
    });
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
    return by_piece(m.yDesc, m.y, blend(m.alpha, m.beta, m.yDesc), work, [&]<typename A>(A, Piece piece) {
        std::vector<A> x = numbers_of<A>(m.xDesc, m.x, piece);
        for (A& each : x) each = static_cast<A>(activated(m.activationDesc, each));
        return x;
    });
}

CUresult run(activate_back& m, Type, Work& work) {
    return by_piece(m.dxDesc, m.dx, blend(m.alpha, m.beta, m.dxDesc), work, [&]<typename A>(A, Piece piece) {
        const std::vector<A> x = numbers_of<A>(m.xDesc, m.x, piece), y = numbers_of<A>(m.yDesc, m.y, piece);
        std::vector<A> dx = numbers_of<A>(m.dyDesc, m.dy, piece);
        for (size_t i = 0; i < dx.size(); ++i) {
            dx[i] = static_cast<A>(activated_back(m.activationDesc, x[i], y[i], dx[i]));
        }
        return dx;
    });
}

CUresult run(softmax& m, Type, Work& work) {
    const Lists lists = lists_of(m.mode, m.xDesc);
    return by_columns(m.yDesc, m.y, blend(m.alpha, m.beta, m.yDesc), lists, work, [&]<typename A>(A, Columns columns) {
        std::vector<A> x = load_columns<A>(m.xDesc, m.x, lists, columns);
        for (int64_t i = 0; i < columns.width; ++i) softmax_of(x.data() + i, lists.count, columns.width, m.algo == kLog, work);
        return x;
    });
}

CUresult run(softmax_back& m, Type, Work& work) {
    const Lists lists = lists_of(m.mode, m.yDesc);
    return by_columns(m.dxDesc, m.dx, blend(m.alpha, m.beta, m.dxDesc), lists, work, [&]<typename A>(A, Columns columns) {
        const std::vector<A> y = load_columns<A>(m.yDesc, m.y, lists, columns);
        std::vector<A> dx = load_columns<A>(m.dyDesc, m.dy, lists, columns);
        for (int64_t i = 0; i < columns.width; ++i) {
            softmax_back_of(y.data() + i, dx.data() + i, lists.count, columns.width, m.algo == kLog, work);
        }
        return dx;
    });
}

CUresult run(lrn& m, Type, Work& work) {
    const Lists lists = lists_of(1, m.xDesc);
    return by_columns(m.yDesc, m.y, blend(m.alpha, m.beta, m.yDesc), lists, work, [&]<typename A>(A, Columns columns) {
        std::vector<A> x = load_columns<A>(m.xDesc, m.x, lists, columns);
        const std::vector<A> energy = energies(m.normDesc, lists.count, columns.width, x, work);
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<A>(x[i] * std::pow(energy[i], -m.normDesc.beta));
        return x;
    });
}

CUresult run(lrn_back& m, Type, Work& work) {
    const Lrn& d = m.normDesc;
    const Lists lists = lists_of(1, m.xDesc);
    const int64_t channels = lists.count, window = d.n;
    return by_columns(m.dxDesc, m.dx, blend(m.alpha, m.beta, m.dxDesc), lists, work, [&]<typename A>(A, Columns columns) {
        const std::vector<A> x = load_columns<A>(m.xDesc, m.x, lists, columns);
        const std::vector<A> y = load_columns<A>(m.yDesc, m.y, lists, columns);
        const std::vector<A> energy = energies(d, channels, columns.width, x, work);
        std::vector<A> dx = load_columns<A>(m.dyDesc, m.dy, lists, columns), share(dx.size());
        for (size_t i = 0; i < dx.size(); ++i) share[i] = dx[i] * y[i] / energy[i];
        for_numbers(channels * columns.width, work, [&](int64_t at) {
            // The channels whose neighbour this one is.
            const int64_t c = at / columns.width, i = at % columns.width;
            const int64_t first = std::max<int64_t>(0, c - window / 2), last = std::min(channels, c + (window - 1) / 2 + 1);
            const auto own = static_cast<size_t>(at);
            double sum = 0;
            for (int64_t j = first; j < last; ++j) sum += share[static_cast<size_t>(j * columns.width + i)];
            dx[own] = static_cast<A>(dx[own] * std::pow(energy[own], -d.beta) -
                                     2 * d.alpha * d.beta / static_cast<double>(window) * x[own] * sum);
        });
        return dx;
    });
}

CUresult run(add& m, Type, Work& work) {
    return by_piece(m.cDesc, m.C, blend(m.alpha, m.beta, m.cDesc), work,
                    [&]<typename A>(A, Piece piece) { return numbers_of<A>(m.aDesc, m.A, m.cDesc, piece); });
}

CUresult run(combine& m, Type, Work& work) {
    const double alpha1 = scale(m.alpha1, m.cDesc), alpha2 = scale(m.alpha2, m.cDesc);
    return by_piece(
        m.cDesc, m.C, {1, scale(m.beta, m.cDesc)}, work,
        [&]<typename A>(A, Piece piece) {
            std::vector<A> a = numbers_of<A>(m.aDesc, m.A, piece);
            const std::vector<A> b =
                m.opTensorDesc.op >= kSqrt ? std::vector<A>(a.size()) : numbers_of<A>(m.bDesc, m.B, m.cDesc, piece);
            for (size_t i = 0; i < a.size(); ++i) {
                a[i] = static_cast<A>(combined(m.opTensorDesc.op, alpha1 * a[i], alpha2 * b[i]));
            }
            return a;
        },
        m.aDesc);
}

CUresult run(multiply& m, Type, Work& work) {
    return by_piece(m.yDesc, m.y, {scale(m.alpha, m.yDesc), 0}, work,
                    [&]<typename A>(A, Piece piece) { return numbers_of<A>(m.yDesc, m.y, piece); });
}

CUresult run(fill& m, Type, Work& work) {
    const double number = get(type_of(m.yDesc), m.value.bytes, 0).real();
    return by_piece(m.yDesc, m.y, {}, work, [&]<typename A>(A, Piece piece) {
        return std::vector<A>(static_cast<size_t>(piece.count), static_cast<A>(number));
    });
}

CUresult run(transform& m, Type, Work& work) {
    return by_piece(
        m.yDesc, m.y, blend(m.alpha, m.beta, m.yDesc), work,
        [&]<typename A>(A, Piece piece) { return numbers_of<A>(m.xDesc, m.x, piece); }, m.xDesc);
}

}  // namespace maths::cudnn
