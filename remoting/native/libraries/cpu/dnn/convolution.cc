#include "dnn/convolution.h"

#include <algorithm>

#include "blas.h"
#include "dnn/dnn_cpu.h"

namespace maths::cudnn {
namespace {

constexpr int kSpatial = 3;  // depth, height, width; what there are fewer of is 1
constexpr int64_t kMostNumbers = 1 << 20, kMostProducts = int64_t{1} << 31;  // of a block

struct Shape {
    int64_t images, groups;
    int64_t channels, filters;  // of a group
    int64_t size[kSpatial], window[kSpatial], places[kSpatial];
    int64_t pads[kSpatial], steps[kSpatial], dilations[kSpatial];
    bool flipped;  // the window, as mathematics' convolution has it

    static int64_t all(const int64_t (&of)[kSpatial]) { return of[0] * of[1] * of[2]; }
    int64_t volume() const { return all(size); }
    int64_t area() const { return all(places); }
    int64_t rows() const { return channels * all(window); }
    // The image itself has the rows.
    bool is_product() const {
        bool plain = all(window) == 1;
        for (int i = 0; i < kSpatial; ++i) plain &= pads[i] == 0 && steps[i] == 1 && places[i] == size[i];
        return plain;
    }
    int64_t block() const {
        const int64_t by_products = kMostProducts / std::max<int64_t>(1, rows() * filters);
        return std::clamp<int64_t>(std::min(kMostNumbers / rows(), by_products), 1, area());
    }
};

Shape shape_of(const Convolved& convolved) {
    const Convolution& by = convolved.by;
    Shape shape{};
    shape.images = convolved.x.dims[0];
    shape.groups = by.groups;
    shape.channels = convolved.w.dims[1];
    shape.filters = convolved.w.dims[0] / by.groups;
    shape.flipped = by.mode == 0;
    for (int i = 0; i < kSpatial; ++i) {
        const int from = i - (kSpatial - by.rank);
        const bool is_there = from >= 0;
        shape.size[i] = is_there ? convolved.x.dims[from + 2] : 1;
        shape.window[i] = is_there ? convolved.w.dims[from + 2] : 1;
        shape.places[i] = is_there ? convolved.y.dims[from + 2] : 1;
        shape.pads[i] = is_there ? by.pads[from] : 0;
        shape.steps[i] = is_there ? by.strides[from] : 1;
        shape.dilations[i] = is_there ? by.dilations[from] : 1;
    }
    return shape;
}

// Places [first, last) of a row that lie within the line: place i is at start + i * step.
struct Inside {
    int64_t first, last;
};
Inside inside(int64_t start, int64_t step, int64_t count, int64_t width) {
    const int64_t first = start >= 0 ? 0 : std::min(count, (-start + step - 1) / step);
    const int64_t last = start >= width ? 0 : std::min(count, (width - 1 - start) / step + 1);
    return {first, std::max(first, last)};
}

// Walks a block of rows: calls `outside` with what is padding, and `within` with what is the image's.
template <typename A, typename Image, typename Outside, typename Within>
void walk(const Shape& s, Image* image, int64_t first, int64_t count, A* rows, Outside outside, Within within) {
    const auto tap = [&](int i, int64_t at) { return (s.flipped ? s.window[i] - 1 - at : at) * s.dilations[i] - s.pads[i]; };
    A* row = rows;
    for (int64_t r = 0; r < s.rows(); ++r, row += count) {
        const int64_t kw = r % s.window[2], kh = r / s.window[2] % s.window[1];
        const int64_t kd = r / (s.window[2] * s.window[1]) % s.window[0], channel = r / Shape::all(s.window);
        int64_t length;
        for (int64_t done = 0; done < count; done += length) {
            const int64_t place = first + done, ow = place % s.places[2];
            const int64_t oh = place / s.places[2] % s.places[1], od = place / (s.places[2] * s.places[1]);
            length = std::min(s.places[2] - ow, count - done);
            const int64_t d = od * s.steps[0] + tap(0, kd), h = oh * s.steps[1] + tap(1, kh);
            if (d < 0 || d >= s.size[0] || h < 0 || h >= s.size[1]) {
                outside(row + done, length);
                continue;
            }
            const int64_t start = ow * s.steps[2] + tap(2, kw);
            const Inside part = inside(start, s.steps[2], length, s.size[2]);
            outside(row + done, part.first);
            outside(row + done + part.last, length - part.last);
            if (part.first == part.last) continue;
            Image* line = image + ((channel * s.size[0] + d) * s.size[1] + h) * s.size[2];
            within(line + start + part.first * s.steps[2], s.steps[2], part.last - part.first, row + done + part.first);
        }
    }
}

template <typename A>
void gather(const Shape& s, const A* image, int64_t first, int64_t count, A* rows) {
    walk(
        s, image, first, count, rows, [](A* to, int64_t n) { std::fill_n(to, n, A(0)); },
        [](const A* from, int64_t step, int64_t n, A* to) {
            for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
        });
}

template <typename A>
void scatter(const Shape& s, A* image, int64_t first, int64_t count, const A* rows) {
    walk(
        s, image, first, count, rows, [](const A*, int64_t) {},
        [](A* to, int64_t step, int64_t n, const A* from) {
            for (int64_t i = 0; i < n; ++i) to[i * step] += from[i];
        });
}

// Rows of numbers one behind the other, `lead` apart.
template <typename A>
struct Rows {
    const A* data;
    int64_t lead;
};
template <typename A>
Rows<A> rows_of(const Shape& s, const A* image, int64_t first, int64_t count, std::vector<A>& block) {
    if (s.is_product()) return {image + first, s.volume()};
    gather(s, image, first, count, block.data());
    return {block.data(), count};
}

// Calls `body` with each group and block of places.
template <typename Body>
void for_blocks(const Shape& s, const Work& work, Body body) {
    const int64_t most = s.block();
    for (int64_t group = 0; group < s.groups; ++group) {
        for (int64_t first = 0; first < s.area() && !work.stopped(); first += most) {
            body(group, first, std::min(most, s.area() - first));
        }
    }
}

template <typename A>
void forward(const Shape& s, const A* w, const A* x, A* y, std::vector<A>& block, const Work& work) {
    for_blocks(s, work, [&](int64_t group, int64_t first, int64_t count) {
        const Rows<A> rows = rows_of(s, x + group * s.channels * s.volume(), first, count, block);
        Blas<A>::gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s.filters, count, s.rows(), A(1),
                      w + group * s.filters * s.rows(), s.rows(), rows.data, rows.lead, A(0),
                      y + group * s.filters * s.area() + first, s.area());
    });
}

template <typename A>
void back_to_data(const Shape& s, const A* w, const A* dy, A* dx, std::vector<A>& block, const Work& work) {
    for_blocks(s, work, [&](int64_t group, int64_t first, int64_t count) {
        Blas<A>::gemm(CblasRowMajor, CblasTrans, CblasNoTrans, s.rows(), count, s.filters, A(1),
                      w + group * s.filters * s.rows(), s.rows(), dy + group * s.filters * s.area() + first, s.area(),
                      A(0), block.data(), count);
        scatter(s, dx + group * s.channels * s.volume(), first, count, block.data());
    });
}

template <typename A>
void back_to_filter(const Shape& s, const A* x, const A* dy, A* dw, std::vector<A>& block, const Work& work) {
    for_blocks(s, work, [&](int64_t group, int64_t first, int64_t count) {
        const Rows<A> rows = rows_of(s, x + group * s.channels * s.volume(), first, count, block);
        Blas<A>::gemm(CblasRowMajor, CblasNoTrans, CblasTrans, s.filters, s.rows(), count, A(1),
                      dy + group * s.filters * s.area() + first, s.area(), rows.data, rows.lead, A(1),
                      dw + group * s.filters * s.rows(), s.rows());
    });
}

template <typename A>
std::vector<A> block_for(const Shape& s) {
    return std::vector<A>(static_cast<size_t>(s.rows() * s.block()));
}

// An image, what it becomes, what is added to that, the whole filter, and a block.
template <typename A>
void reserve_for(const Convolved& c, const Shape& s, Work& work) {
    const uint64_t images = sum(length(volume_of(c.x)), product(3, length(volume_of(c.y))));
    const uint64_t filter = product(length(volume_of(c.w)), length(c.w.dims[0]));
    const uint64_t block = product(length(s.rows()), length(s.block()));
    work.reserve(product(sum(images, sum(filter, block)), sizeof(A)));
}

template <typename Message>
Convolved convolved(const Message& m, const Tensor& x, uint64_t x_data, const Filter& w, uint64_t w_data,
                    const Tensor& y, uint64_t y_data) {
    return {x, x_data, tensor_of(w), w_data, m.convDesc, y, y_data};
}

// `finish` may change an image of the result, and says how it is stored.
template <typename Finish>
CUresult convolve_images(const Convolved& c, Finish finish, Work& work) {
    return in_precision(
        [&]<typename A>(A) {
            const Shape s = shape_of(c);
            reserve_for<A>(c, s, work);
            const std::vector<A> w = whole<A>(c.w, c.w_data);
            std::vector<A> x(static_cast<size_t>(volume_of(c.x))), y(static_cast<size_t>(volume_of(c.y)));
            std::vector<A> block = block_for<A>(s);
            for (int64_t n = 0; n < s.images && !work.stopped(); ++n) {
                load(c.x, c.x_data, c.x, n, x.data());
                forward(s, w.data(), x.data(), y.data(), block, work);
                const Blend blend = finish(n, y);
                store(c.y, c.y_data, n, y.data(), blend);
            }
        },
        c.x, c.w, c.y);
}

}  // namespace

CUresult convolve_forward(const Convolved& c, Blend blend, Work& work) {
    return convolve_images(c, [&](int64_t, auto&) { return blend; }, work);
}

CUresult convolve_back_to_data(const Convolved& c, Blend blend, Work& work) {
    return in_precision(
        [&]<typename A>(A) {
            const Shape s = shape_of(c);
            reserve_for<A>(c, s, work);
            const std::vector<A> w = whole<A>(c.w, c.w_data);
            std::vector<A> dx(static_cast<size_t>(volume_of(c.x))), dy(static_cast<size_t>(volume_of(c.y)));
            std::vector<A> block = block_for<A>(s);
            for (int64_t n = 0; n < s.images && !work.stopped(); ++n) {
                load(c.y, c.y_data, c.y, n, dy.data());
                std::fill(dx.begin(), dx.end(), A(0));
                back_to_data(s, w.data(), dy.data(), dx.data(), block, work);
                store(c.x, c.x_data, n, dx.data(), blend);
            }
        },
        c.x, c.w, c.y);
}

CUresult convolve_back_to_filter(const Convolved& c, Blend blend, Work& work) {
    return in_precision(
        [&]<typename A>(A) {
            const Shape s = shape_of(c);
            reserve_for<A>(c, s, work);
            std::vector<A> dw(static_cast<size_t>(volume_of(c.w) * c.w.dims[0]));
            std::vector<A> x(static_cast<size_t>(volume_of(c.x))), dy(static_cast<size_t>(volume_of(c.y)));
            std::vector<A> block = block_for<A>(s);
            for (int64_t n = 0; n < s.images && !work.stopped(); ++n) {
                load(c.x, c.x_data, c.x, n, x.data());
                load(c.y, c.y_data, c.y, n, dy.data());
                back_to_filter(s, x.data(), dy.data(), dw.data(), block, work);
            }
            store_whole(c.w, c.w_data, dw.data(), blend);
        },
        c.x, c.w, c.y);
}

CUresult run(convolve& m, Type, Work& work) {
    return convolve_forward(convolved(m, m.xDesc, m.x, m.wDesc, m.w, m.yDesc, m.y), blend(m.alpha, m.beta, m.yDesc), work);
}

CUresult run(convolve_back_data& m, Type, Work& work) {
    return convolve_back_to_data(convolved(m, m.dxDesc, m.dx, m.wDesc, m.w, m.dyDesc, m.dy),
                                 blend(m.alpha, m.beta, m.dxDesc), work);
}

CUresult run(convolve_back_filter& m, Type, Work& work) {
    return convolve_back_to_filter(convolved(m, m.xDesc, m.x, m.dwDesc, m.dw, m.dyDesc, m.dy),
                                   blend(m.alpha, m.beta, m.dwDesc), work);
}

// alpha1 of the convolution and alpha2 of z; the bias has none.
CUresult run(convolve_and_activate& m, Type, Work& work) {
    const double alpha = scale(m.alpha1, m.yDesc), beta = scale(m.alpha2, m.yDesc);
    const auto finish = [&]<typename A>(int64_t n, std::vector<A>& y) {
        const std::vector<A> bias = image<A>(m.biasDesc, m.bias, m.yDesc, 0);
        const std::vector<A> z = beta == 0 ? std::vector<A>(y.size()) : image<A>(m.zDesc, m.z, n);
        for (size_t i = 0; i < y.size(); ++i) {
            y[i] = static_cast<A>(activated(m.activationDesc, alpha * y[i] + beta * z[i] + bias[i]));
        }
        return Blend{};
    };
    return convolve_images(convolved(m, m.xDesc, m.x, m.wDesc, m.w, m.yDesc, m.y), finish, work);
}

CUresult run(convolve_back_bias& m, Type, Work& work) {
    reserve_images(work, 1, length(m.dyDesc.dims[1]), m.dyDesc);
    std::vector<double> sums(static_cast<size_t>(m.dyDesc.dims[1]));
    const int64_t space = space_of(m.dyDesc);
    for (int64_t n = 0; n < m.dyDesc.dims[0] && !work.stopped(); ++n) {
        const std::vector<double> dy = image<double>(m.dyDesc, m.dy, n);
        for (size_t i = 0; i < dy.size(); ++i) sums[i / static_cast<size_t>(space)] += dy[i];
    }
    store_whole(m.dbDesc, m.db, sums.data(), blend(m.alpha, m.beta, m.dbDesc));
    return CUDA_SUCCESS;
}

}  // namespace maths::cudnn
