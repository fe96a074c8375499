// Sparse systems by QR: rotations merge one row after another into the rows of R, each of which lies without
// gaps from its diagonal to the last column that it can reach. How far that is the order of the columns
// decides, so they are ordered first (reverse Cuthill-McKee), unless the program wants none.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cusolver_messages.h"
#include "sparse/compressed.h"

namespace maths::cusolver {
namespace {

using cusparse::Compressed;
using cusparse::Sparse;
using cusparse::Walk;
using Order = std::vector<int64_t>;

size_t index(int64_t i) {
    return static_cast<size_t>(i);
}

Sparse matrix_of(const csrlsvqr& m, Type type) {
    Sparse made{};
    made.format = cusparse::kCsr, made.type = type;
    made.offset_type = made.index_type = cusparse::kIndex32, made.base = static_cast<int32_t>(m.base);
    made.rows = made.columns = m.m, made.entries = m.nnz;
    made.block_rows = made.block_columns = made.batch = 1;
    made.offsets = m.offsets, made.indices = m.indices, made.values = m.values;
    return made;
}

// Which rows have an entry in the column of another, in either direction.
class Neighbours {
  public:
    template <typename T>
    Neighbours(const Compressed<T>& a, Walk& walk) : offsets_(index(a.rows) + 1) {
        for_pairs(a, walk, [&](int64_t i, int64_t) { ++offsets_[index(i) + 1]; });
        std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
        all_.resize(index(offsets_.back()));
        Order next(offsets_.begin(), offsets_.end() - 1);
        for_pairs(a, walk, [&](int64_t i, int64_t j) { all_[index(next[index(i)]++)] = j; });
    }
    // Of an order of n rows, while it is found.
    static uint64_t bytes_for(int64_t n, int64_t entries) {
        return sum(product(length(entries), 3 * sizeof(int64_t)),
                   product(sum(length(n), 1), 6 * sizeof(int64_t)));
    }

    int64_t count(int64_t i) const { return offsets_[index(i) + 1] - offsets_[index(i)]; }
    auto begin(int64_t i) const { return all_.begin() + offsets_[index(i)]; }
    auto end(int64_t i) const { return all_.begin() + offsets_[index(i) + 1]; }

  private:
    template <typename T, typename Body>
    static void for_pairs(const Compressed<T>& a, Walk& walk, Body body) {
        for (int64_t i = 0; i < a.rows; ++i) {
            for (int64_t k = a.offsets[index(i)]; k < a.offsets[index(i) + 1]; ++k) {
                const int64_t j = a.columns[index(k)];
                if (i != j) body(i, j), body(j, i);
                walk.step();
            }
        }
    }

    Order offsets_, all_;
};

// Appends what `first` leads to, those with few neighbours first; `marks` says by `mark` who was there. Where
// the last level begins.
size_t append_levels(const Neighbours& of, int64_t first, Order& order, std::vector<char>& marks, char mark,
                     Walk& walk) {
    size_t level = order.size(), end = level + 1;
    order.push_back(first);
    marks[index(first)] = mark;
    for (size_t at = level; at < order.size(); ++at) {
        if (at == end) level = end, end = order.size();
        const size_t from = order.size();
        for (auto j = of.begin(order[at]); j != of.end(order[at]); ++j) {
            walk.step();
            if (marks[index(*j)] == mark) continue;
            marks[index(*j)] = mark;
            order.push_back(*j);
        }
        cusparse::sort(order, walk, [&](int64_t a, int64_t b) { return of.count(a) < of.count(b); }, from);
    }
    return level;
}

Order cuthill_mckee(const Neighbours& of, int64_t n, Walk& walk) {
    constexpr char kTried = 1, kDone = 2;
    Order order;
    order.reserve(index(n));
    std::vector<char> marks(index(n));
    for (int64_t i = 0; i < n; ++i) {
        walk.step();
        if (marks[index(i)] == kDone) continue;
        // From what is far away from it levels are narrow.
        const size_t before = order.size();
        const size_t last = append_levels(of, i, order, marks, kTried, walk);
        const int64_t far =
            *std::min_element(order.begin() + static_cast<int64_t>(last), order.end(),
                              [&](int64_t a, int64_t b) { return of.count(a) < of.count(b); });
        order.resize(before);
        append_levels(of, far, order, marks, kDone, walk);
    }
    std::reverse(order.begin(), order.end());
    return order;
}

template <typename T>
class Solution {
  public:
    // What of it does not depend on the entries.
    static uint64_t bytes_for(const csrlsvqr& m) {
        const uint64_t of_rows = product(sum(length(m.m), 1), 4 * sizeof(int64_t) + 4 * sizeof(T));
        const uint64_t of_order = sum(Neighbours::bytes_for(m.m, m.nnz), of_rows);
        return sum(Compressed<T>::bytes_for(matrix_of(m, kNoType), 0), of_order);
    }

    Solution(const csrlsvqr& m, Type type, Walk& walk)
        : n_(m.m),
          walk_(walk),
          a_(matrix_of(m, type), "A", 0, walk),
          order_(index(n_)),
          starts_(index(n_) + 1) {
        std::iota(order_.begin(), order_.end(), int64_t{0});
        if (m.reorder != 0) order_ = cuthill_mckee(Neighbours(a_, walk), n_, walk);
        place_.resize(index(n_));
        for (int64_t i = 0; i < n_; ++i) place_[index(order_[index(i)])] = i;
        reach();
    }

    uint64_t elements() const { return static_cast<uint64_t>(starts_.back()); }

    // The first column whose number on the diagonal is as good as 0; -1 where there is none.
    int64_t solve(const T* b, double tolerance, T* x) {
        r_.assign(elements(), T(0));
        right_.assign(index(n_), T(0));
        has_row_.assign(index(n_), false);
        std::vector<T> row(index(n_));
        for (int64_t i = 0; i < n_; ++i) merge(i, b[order_[index(i)]], row);
        const auto limit = static_cast<Real<T>>(std::max(0.0, tolerance));
        int64_t singular = -1;
        for (int64_t j = n_ - 1; j >= 0; --j) {
            if (!(std::abs(*row_of(j)) > limit)) singular = j;
        }
        substitute();
        for (int64_t j = 0; j < n_; ++j) x[order_[index(j)]] = right_[index(j)];
        return singular;
    }

  private:
    T* row_of(int64_t j) { return r_.data() + starts_[index(j)]; }
    int64_t width(int64_t j) const { return starts_[index(j) + 1] - starts_[index(j)]; }

    // A row of R has come from rows of A that begin no further right, so it ends where the longest of them
    // does.
    void reach() {
        for (int64_t i = 0; i < n_; ++i) {
            int64_t first = n_, last = 0;
            for_row(i, [&](int64_t column, T) {
                first = std::min(first, column), last = std::max(last, column);
            });
            if (first < n_) starts_[index(first) + 1] = std::max(starts_[index(first) + 1], last);
        }
        int64_t last = 0, all = 0;
        for (int64_t j = 0; j < n_; ++j) {
            last = std::max({last, starts_[index(j) + 1], j});
            all = static_cast<int64_t>(std::min<uint64_t>(INT64_MAX, sum(length(all), length(last - j + 1))));
            starts_[index(j) + 1] = all;
        }
    }

    template <typename Body>
    void for_row(int64_t i, Body body) {
        const auto row = index(order_[index(i)]);
        for (int64_t k = a_.offsets[row]; k < a_.offsets[row + 1]; ++k) {
            body(place_[index(a_.columns[index(k)])], a_.values[index(k)]);
            walk_.step();
        }
    }

    // `row` is of zeros before and after.
    void merge(int64_t i, T right, std::vector<T>& row) {
        int64_t first = n_;
        for_row(i, [&](int64_t column, T value) {
            first = std::min(first, column), row[index(column)] += value;
        });
        int64_t end = first;
        for (int64_t j = first; j < n_ && (j == first || j < end); ++j) {
            end = std::max(end, j + width(j));
            walk_.step(width(j));
            if (row[index(j)] == T(0)) continue;
            if (!has_row_[index(j)]) {
                std::copy_n(row.data() + j, width(j), row_of(j));
                std::fill_n(row.data() + j, width(j), T(0));
                right_[index(j)] = right;
                has_row_[index(j)] = true;
                return;
            }
            rotate(j, row, right);
        }
    }

    // So that the row has a zero in column j.
    void rotate(int64_t j, std::vector<T>& row, T& right) {
        T *const above = row_of(j), *const below = row.data() + j;
        const Real<T> norm = std::hypot(std::abs(above[0]), std::abs(below[0]));
        const T c = above[0] / norm, s = below[0] / norm;
        const auto turn = [&](T& a, T& b) {
            const T was = a;
            a = conjugate(c) * was + conjugate(s) * b;
            b = c * b - s * was;
        };
        for (int64_t k = 0; k < width(j); ++k) turn(above[k], below[k]);
        turn(right_[index(j)], right);
        below[0] = T(0);
    }

    void substitute() {
        for (int64_t j = n_ - 1; j >= 0; --j) {
            const T* const row = row_of(j);
            T value = right_[index(j)];
            for (int64_t k = 1; k < width(j); ++k) value -= row[k] * right_[index(j + k)];
            right_[index(j)] = value / row[0];
            walk_.step(width(j));
        }
    }

    const int64_t n_;
    Walk& walk_;
    const Compressed<T> a_;
    Order order_, place_;  // which row comes when, and when each does
    Order starts_;         // of R's rows, and where the last ends
    std::vector<T> r_, right_;
    std::vector<char> has_row_;
};

// The matrix is read once: what R takes is that copy's, whatever lies in the slice by then.
template <typename T>
void solve(const csrlsvqr& m, Type type, Work& work) {
    Walk walk(work);
    const uint64_t least = Solution<T>::bytes_for(m);
    work.reserve(least);
    Solution<T> solution(m, type, walk);
    work.reserve_again(sum(least, product(solution.elements(), sizeof(T))));
    const int64_t singular = solution.solve(at<T>(m.b), m.tolerance, at<T>(m.x));
    *at<int32_t>(m.singularity) = static_cast<int32_t>(singular);
}

}  // namespace

CUresult run(csrlsvqr& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) { solve<T>(m, type, work); });
}

}  // namespace maths::cusolver
