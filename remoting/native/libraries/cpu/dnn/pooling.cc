// Pooling: the largest number, or the mean, of each window of an image.
#include <algorithm>
#include <cmath>

#include "dnn/dnn_cpu.h"
#include "dnn/tensors.h"

namespace maths::cudnn {
namespace {

enum Mode : int32_t { kLargest = 0, kMeanWithPadding = 1, kMean = 2, kLargestDeterministic = 3 };
constexpr int kSpatial = 3;

struct Pools {
    int64_t images, channels;
    int64_t size[kSpatial], window[kSpatial], places[kSpatial], pads[kSpatial], steps[kSpatial];
    bool largest, with_padding, spreads_nan;

    int64_t volume() const { return size[0] * size[1] * size[2]; }
    int64_t area() const { return places[0] * places[1] * places[2]; }
};

Pools pools_of(const Pooling& pooling, const Tensor& x, const Tensor& y) {
    Pools p{};
    p.images = x.dims[0], p.channels = x.dims[1];
    p.largest = pooling.mode == kLargest || pooling.mode == kLargestDeterministic;
    p.with_padding = pooling.mode == kMeanWithPadding;
    p.spreads_nan = pooling.nan != 0;
    for (int i = 0; i < kSpatial; ++i) {
        const int from = i - (kSpatial - pooling.rank);
        const bool is_there = from >= 0;
        p.size[i] = is_there ? x.dims[from + 2] : 1;
        p.places[i] = is_there ? y.dims[from + 2] : 1;
        p.window[i] = is_there ? pooling.window[from] : 1;
        p.pads[i] = is_there ? pooling.pads[from] : 0;
        p.steps[i] = is_there ? pooling.strides[from] : 1;
    }
    return p;
}

// The part of a place's window that lies in the image.
struct Window {
    int64_t first[kSpatial], last[kSpatial], divisor;

    int64_t count() const { return (last[0] - first[0]) * (last[1] - first[1]) * (last[2] - first[2]); }
    template <typename Body>
    void each(const Pools& p, Body body) const {
        for (int64_t d = first[0]; d < last[0]; ++d) {
            for (int64_t h = first[1]; h < last[1]; ++h) {
                for (int64_t w = first[2]; w < last[2]; ++w) body((d * p.size[1] + h) * p.size[2] + w);
            }
        }
    }
};
Window window_of(const Pools& p, int64_t place) {
    Window window{};
    const int64_t at[] = {place / (p.places[2] * p.places[1]), place / p.places[2] % p.places[1], place % p.places[2]};
    window.divisor = 1;
    for (int i = 0; i < kSpatial; ++i) {
        const int64_t start = at[i] * p.steps[i] - p.pads[i];
        window.first[i] = std::max<int64_t>(start, 0);
        window.last[i] = std::min(start + p.window[i], p.size[i]);
        window.divisor *= p.with_padding ? p.window[i] : window.last[i] - window.first[i];
    }
    return window;
}

template <typename A>
int64_t largest(const Pools& p, const Window& window, const A* x) {
    int64_t best = -1;
    window.each(p, [&](int64_t i) {
        if (best < 0) {
            best = i;
        } else if (std::isnan(x[best])) {
            if (!p.spreads_nan && !std::isnan(x[i])) best = i;
        } else if (x[i] > x[best] || (p.spreads_nan && std::isnan(x[i]))) {
            best = i;
        }
    });
    return best;
}

// Calls `body` with the image's channel, the result's, and each window of it.
template <typename Body>
void for_windows(const Pools& p, Watch& watch, Body body) {
    for (int64_t channel = 0; channel < p.channels; ++channel) {
        for (int64_t place = 0; place < p.area(); ++place) {
            const Window window = window_of(p, place);
            if (watch.stops(window.count())) return;
            body(channel * p.volume(), channel * p.area() + place, window);
        }
    }
}

}  // namespace

CUresult run(pool& m, Type, Work& work) {
    const Pools p = pools_of(m.poolingDesc, m.xDesc, m.yDesc);
    const Blend blending = blend(m.alpha, m.beta, m.yDesc);
    reserve_images(work, 2, 0, m.xDesc, m.yDesc);
    Watch watch(work);
    return in_precision(
        [&]<typename A>(A) {
            for (int64_t n = 0; n < p.images && !watch.stops(1); ++n) {
                const std::vector<A> x = image<A>(m.xDesc, m.x, n);
                std::vector<A> y(static_cast<size_t>(volume_of(m.yDesc)));
                for_windows(p, watch, [&](int64_t from, int64_t to, const Window& window) {
                    const A* channel = x.data() + from;
                    A& result = y[static_cast<size_t>(to)];
                    if (p.largest) {
                        result = channel[largest(p, window, channel)];
                    } else {
                        window.each(p, [&](int64_t i) { result += channel[i]; });
                        result /= static_cast<A>(window.divisor);
                    }
                });
                store(m.yDesc, m.y, n, y.data(), blending);
            }
        },
        m.xDesc);
}

CUresult run(pool_back& m, Type, Work& work) {
    const Pools p = pools_of(m.poolingDesc, m.xDesc, m.yDesc);
    const Blend blending = blend(m.alpha, m.beta, m.dxDesc);
    reserve_images(work, 3, 0, m.xDesc, m.yDesc);
    Watch watch(work);
    return in_precision(
        [&]<typename A>(A) {
            for (int64_t n = 0; n < p.images && !watch.stops(1); ++n) {
                const std::vector<A> x = image<A>(m.xDesc, m.x, n), dy = image<A>(m.dyDesc, m.dy, n);
                std::vector<A> dx(x.size());
                for_windows(p, watch, [&](int64_t from, int64_t to, const Window& window) {
                    const A given = dy[static_cast<size_t>(to)];
                    if (p.largest) {
                        dx[static_cast<size_t>(from + largest(p, window, x.data() + from))] += given;
                    } else {
                        const A part = given / static_cast<A>(window.divisor);
                        window.each(p, [&](int64_t i) { dx[static_cast<size_t>(from + i)] += part; });
                    }
                });
                store(m.dxDesc, m.dx, n, dx.data(), blending);
            }
        },
        m.xDesc);
}

}  // namespace maths::cudnn
