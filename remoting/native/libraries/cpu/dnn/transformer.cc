// Spatial transformers: a grid of places by an affine map, and an image sampled at them.
#include <cmath>

#include "dnn/dnn_cpu.h"
#include "dnn/tensors.h"

namespace maths::cudnn {
namespace {

// From -1 to 1; the only place is the middle.
double coordinate(int64_t i, int64_t count) {
    return count > 1 ? 2.0 * static_cast<double>(i) / static_cast<double>(count - 1) - 1 : 0;
}

// Images of so many numbers one behind another.
Tensor images_of(const Transformer& by, int64_t each) {
    return {by.type, 2, {by.dims[0], each}, {each, 1}};
}
Tensor maps(const Transformer& by) {
    return images_of(by, kOfMap);
}
Tensor grids(const Transformer& by) {
    return images_of(by, by.dims[2] * by.dims[3] * kOfPlace);
}

// Calls `body` with each line of each image's grid, and which of the grid's numbers it has.
template <typename Body>
void for_lines(const Transformer& by, const Work& work, Body body) {
    const int64_t numbers = by.dims[3] * kOfPlace;
    Watch watch(work);
    for (int64_t n = 0; n < by.dims[0]; ++n) {
        for (int64_t h = 0; h < by.dims[2] && !watch.stops(numbers); ++h)
            body(n, h, Piece{n, h * numbers, numbers});
    }
}

// Calls `body` with pieces of the n-th image, between which work can be interrupted.
template <typename Body>
void for_pieces_of(const Tensor& tensor, int64_t n, const Work& work, Body body) {
    Tensor one = tensor;
    one.dims[0] = 1;
    for_pieces(one, work, [&](Piece piece) { body(Piece{n, piece.first, piece.count}); });
}
template <typename A>
void load_image(const Tensor& tensor, uint64_t data, int64_t n, const Work& work, std::vector<A>& to) {
    for_pieces_of(tensor, n, work,
                  [&](Piece piece) { load(tensor, data, tensor, piece, to.data() + piece.first); });
}
template <typename A>
void store_image(const Tensor& tensor, uint64_t data, int64_t n, const Work& work, const std::vector<A>& from,
                 Blend blending) {
    for_pieces_of(tensor, n, work,
                  [&](Piece piece) { store(tensor, data, piece, from.data() + piece.first, blending); });
}

// Where a place of the grid lies among an image's numbers: between four of them, with their shares. Outside
// there is nothing.
struct Corners {
    const double x, y, left, top;
    const int64_t width, height;

    Corners(double grid_x, double grid_y, int64_t width, int64_t height)
        : x((grid_x + 1) / 2 * static_cast<double>(width - 1)),
          y((grid_y + 1) / 2 * static_cast<double>(height - 1)),
          left(std::floor(x)),
          top(std::floor(y)),
          width(width),
          height(height) {}

    // Calls `body` with each number's place, its share, and how the share grows with x and y.
    template <typename Body>
    void each(Body body) const {
        const bool touches =
            x > -1 && y > -1 && x < static_cast<double>(width) && y < static_cast<double>(height);
        if (!touches) return;  // nor does what is no number
        const double right_share = x - left, low_share = y - top;
        for (int corner = 0; corner < 4; ++corner) {
            const bool right = corner % 2, low = corner / 2;
            const int64_t column = static_cast<int64_t>(left) + right, line = static_cast<int64_t>(top) + low;
            if (column < 0 || line < 0 || column >= width || line >= height) continue;
            const double across = right ? right_share : 1 - right_share,
                         down = low ? low_share : 1 - low_share;
            body(static_cast<size_t>(line * width + column), across * down, (right ? 1 : -1) * down,
                 (low ? 1 : -1) * across);
        }
    }
};

template <typename A>
void sample(const sampler& m, Work& work) {
    const Transformer& by = m.stDesc;
    const int64_t channels = m.xDesc.dims[1], height = m.xDesc.dims[2], width = m.xDesc.dims[3],
                  places = by.dims[3];
    reserve_images(work, 1, product(1 + kOfPlace, length(places)), m.xDesc);
    const Blend blending = blend(m.alpha, m.beta, m.yDesc);
    std::vector<A> x(static_cast<size_t>(volume_of(m.xDesc))), line(static_cast<size_t>(places));
    Watch watch(work);
    for_lines(by, work, [&](int64_t n, int64_t h, Piece of_line) {
        if (h == 0) load_image(m.xDesc, m.x, n, work, x);
        const std::vector<A> grid = numbers_of<A>(grids(by), m.grid, of_line);
        for (int64_t c = 0; c < channels && !watch.stops(places); ++c) {
            const A* const channel = x.data() + c * height * width;
            for (size_t w = 0; w < line.size(); ++w) {
                double sum = 0;
                Corners(grid[kOfPlace * w], grid[kOfPlace * w + 1], width, height)
                    .each([&](size_t i, double share, double, double) { sum += share * channel[i]; });
                line[w] = static_cast<A>(sum);
            }
            store(m.yDesc, m.y, Piece{n, (c * by.dims[2] + h) * places, places}, line.data(), blending);
        }
    });
}

template <typename A>
void sample_back(const sampler_back& m, Work& work) {
    const Transformer& by = m.stDesc;
    const int64_t channels = m.xDesc.dims[1], height = m.xDesc.dims[2], width = m.xDesc.dims[3],
                  places = by.dims[3];
    reserve_images(work, 2, product(1 + 2 * kOfPlace, length(places)), m.xDesc);
    const Blend of_image = blend(m.alpha, m.beta, m.dxDesc),
                of_grid = blend(m.alphaDgrid, m.betaDgrid, m.dxDesc);
    const double x_step = static_cast<double>(width - 1) / 2, y_step = static_cast<double>(height - 1) / 2;
    std::vector<A> x(static_cast<size_t>(volume_of(m.xDesc))), dx(x.size());
    Watch watch(work);
    for_lines(by, work, [&](int64_t n, int64_t h, Piece of_line) {
        if (h == 0) load_image(m.xDesc, m.x, n, work, x), std::fill(dx.begin(), dx.end(), A(0));
        const std::vector<A> grid = numbers_of<A>(grids(by), m.grid, of_line);
        std::vector<A> d_grid(grid.size());
        for (int64_t c = 0; c < channels && !watch.stops(places); ++c) {
            const size_t channel = static_cast<size_t>(c * height * width);
            const std::vector<A> dy =
                numbers_of<A>(m.dyDesc, m.dy, Piece{n, (c * by.dims[2] + h) * places, places});
            for (size_t w = 0; w < dy.size(); ++w) {
                const size_t at = kOfPlace * w;
                const double d = dy[w];
                Corners(grid[at], grid[at + 1], width, height)
                    .each([&](size_t i, double share, double across, double down) {
                        dx[channel + i] += static_cast<A>(d * share);
                        d_grid[at] += static_cast<A>(d * x[channel + i] * across * x_step);
                        d_grid[at + 1] += static_cast<A>(d * x[channel + i] * down * y_step);
                    });
            }
        }
        if (watch.stops(0)) return;
        store(grids(by), m.dgrid, of_line, d_grid.data(), of_grid);
        if (h + 1 == by.dims[2]) store_image(m.dxDesc, m.dx, n, work, dx, of_image);
    });
}

}  // namespace

CUresult run(make_grid& m, Type, Work& work) {
    const Transformer& by = m.stDesc;
    work.reserve(product(sum(product(kOfPlace, length(by.dims[3])), kOfMap), sizeof(double)));
    return in_precision(
        [&]<typename A>(A) {
            std::vector<A> line(static_cast<size_t>(by.dims[3] * kOfPlace));
            for_lines(by, work, [&](int64_t n, int64_t h, Piece of_line) {
                const std::vector<A> map = image<A>(maps(by), m.theta, n);
                const double y = coordinate(h, by.dims[2]);
                for (int64_t w = 0; w < by.dims[3]; ++w) {
                    const double x = coordinate(w, by.dims[3]);
                    const auto at = static_cast<size_t>(w * kOfPlace);
                    line[at] = static_cast<A>(map[0] * x + map[1] * y + map[2]);
                    line[at + 1] = static_cast<A>(map[3] * x + map[4] * y + map[5]);
                }
                store(grids(by), m.grid, of_line, line.data(), {});
            });
        },
        by);
}

CUresult run(make_grid_back& m, Type, Work& work) {
    const Transformer& by = m.stDesc;
    work.reserve(product(product(kOfPlace, length(by.dims[3])), sizeof(double)));
    double slopes[kOfMap];
    for_lines(by, work, [&](int64_t n, int64_t h, Piece of_line) {
        if (h == 0) std::fill(std::begin(slopes), std::end(slopes), 0.0);
        const std::vector<double> d = numbers_of<double>(grids(by), m.dgrid, of_line);
        const double y = coordinate(h, by.dims[2]);
        for (int64_t i = 0; i < of_line.count; ++i) {
            double* const row = slopes + i % kOfPlace * (kOfMap / kOfPlace);
            const double of = d[static_cast<size_t>(i)];
            row[0] += of * coordinate(i / kOfPlace, by.dims[3]), row[1] += of * y, row[2] += of;
        }
        if (h + 1 == by.dims[2]) store(maps(by), m.dtheta, n, slopes, {});
    });
    return CUDA_SUCCESS;
}

CUresult run(sampler& m, Type, Work& work) {
    return in_precision([&]<typename A>(A) { sample<A>(m, work); }, m.stDesc);
}

CUresult run(sampler_back& m, Type, Work& work) {
    return in_precision([&]<typename A>(A) { sample_back<A>(m, work); }, m.stDesc);
}

}  // namespace maths::cudnn
