// Products of sparse and dense matrices.
#include <algorithm>
#include <vector>

#include "sparse/sparse_cpu.h"
#include "sparse/walk.h"

namespace maths::cusparse {
namespace {

constexpr int64_t kMostSums = 1 << 20;  // at once, where a column has no more

int64_t columns_at_once(int64_t rows, int64_t columns) {
    return std::clamp<int64_t>(kMostSums / rows, 1, columns);
}
template <typename T>
void reserve_sums(const Sparse& a, int64_t op, int64_t columns, Work& work) {
    const auto rows = static_cast<int64_t>(rows_of(op, a));
    if (rows == 0 || columns == 0) return;
    work.reserve(product(product(length(rows), length(columns_at_once(rows, columns))), sizeof(Computed<T>)));
}

// A dense operand with its place in a batch.
struct Side {
    uint64_t values;
    int64_t type, op;
    Places places;
};

// The columns [first, first + count) of op(A) op(B).
template <typename T, typename A>
void sum_columns(const Sparse& a, int64_t op, int64_t batch, const Side& b, int64_t first, int64_t count,
                 std::vector<A>& sums, Walk& walk) {
    std::fill(sums.begin(), sums.end(), A{});
    const T* const values = values_of<T>(a, a.value_stride, batch);
    const T* const from = at<T>(b.values) + b.places.of(0, first);
    for_entries(a, "A", batch, walk, [&](int64_t row, int64_t column, int64_t place) {
        if (op != 0) std::swap(row, column);
        const A factor = operated(op, static_cast<A>(values[place]));
        const T* const across = from + column * b.places.down;
        A* const to = sums.data() + row * count;
        for (int64_t j = 0; j < count; ++j) {
            to[j] += times(factor, operated(b.op, static_cast<A>(across[j * b.places.right])));
        }
        walk.step(count);
    });
}

template <typename T>
void multiply(const Sparse& a, int64_t op, int64_t batch, const Side& b, const Side& c, int64_t columns,
              const Blend& blend, Walk& walk) {
    using A = Computed<T>;
    const auto rows = static_cast<int64_t>(rows_of(op, a));
    if (rows == 0 || columns == 0) return;
    const int64_t at_once = columns_at_once(rows, columns);
    std::vector<A> sums(static_cast<size_t>(rows * at_once));
    for (int64_t first = 0; first < columns; first += at_once) {
        const int64_t count = std::min(at_once, columns - first);
        if (!blend.is_all_old()) sum_columns<T>(a, op, batch, b, first, count, sums, walk);
        for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < count; ++j) {
                blend.put_at(c.type, at<void>(c.values), c.places.of(i, first + j),
                             sums[static_cast<size_t>(i * count + j)]);
            }
            walk.step(count);
        }
    }
}

// The row of op(A) and the column of op(B) by which an entry is found.
template <typename T>
Computed<T> dot(const sddmm& m, const Places& a, const Places& b, int64_t row, int64_t column, int64_t length,
                Walk& walk) {
    using A = Computed<T>;
    const T* const left = at<T>(m.A.values) + a.of(row, 0);
    const T* const right = at<T>(m.B.values) + b.of(0, column);
    A sum{};
    for (int64_t l = 0; l < length; ++l) {
        sum += times(operated(m.opA, static_cast<A>(left[l * a.right])),
                     operated(m.opB, static_cast<A>(right[l * b.down])));
    }
    walk.step(length);
    return sum;
}

}  // namespace

CUresult run(spmv& m, Type, Work& work) {
    const Blend blend(m.alpha, m.beta, m.compute);
    const auto side = [](const Vector& v) {
        return Side{v.values, v.type, 0, Places({v.type, kByColumns, v.size, 1, v.size, 1, 0, 0}, 0, 0)};
    };
    return of_value(m.A.type, [&]<typename T>(T*) {
        Walk walk(work);
        reserve_sums<T>(m.A, m.op, 1, work);
        multiply<T>(m.A, m.op, 0, side(m.x), side(m.y), 1, blend, walk);
    });
}

CUresult run(spmm& m, Type, Work& work) {
    const Blend blend(m.alpha, m.beta, m.compute);
    return of_value(m.A.type, [&]<typename T>(T*) {
        Walk walk(work);
        reserve_sums<T>(m.A, m.opA, m.C.columns, work);
        for (int64_t i = 0; i < m.C.batch; ++i) {
            walk.step();
            multiply<T>(m.A, m.opA, i, {m.B.values, m.B.type, m.opB, Places(m.B, m.opB, i)},
                        {m.C.values, m.C.type, 0, Places(m.C, 0, i)}, m.C.columns, blend, walk);
        }
    });
}

CUresult run(sddmm& m, Type, Work& work) {
    const Blend blend(m.alpha, m.beta, m.compute);
    const auto length = static_cast<int64_t>(columns_of(m.opA, m.A));
    return of_value(m.A.type, [&]<typename T>(T*) {
        Walk walk(work);
        for (int64_t i = 0; i < m.C.batch; ++i) {
            walk.step();
            const Places a(m.A, m.opA, i), b(m.B, m.opB, i);
            const int64_t first = nth_stride(m.C.value_stride, i, m.C.batch);
            for_entries(m.C, "C", i, walk, [&](int64_t row, int64_t column, int64_t place) {
                const Number sum = blend.is_all_old() ? 0 : dot<T>(m, a, b, row, column, length, walk);
                blend.put_at(m.C.type, at<void>(m.C.values), first + place, sum);
            });
        }
    });
}

}  // namespace maths::cusparse
