// Between sparse and dense matrices.
#include <algorithm>

#include "sparse/sparse_cpu.h"
#include "sparse/walk.h"

namespace maths::cusparse {
namespace {

// Calls `body` with line, place across it and value of each number that is not 0, line by line. `ended`: when
// a line is over, where that is to be told.
template <typename T, typename Body, typename Ended>
void for_numbers(const Dense& m, bool by_columns, bool is_told, Walk& walk, Body body, Ended ended) {
    const Places places(m, 0, 0);
    const int64_t across = by_columns ? m.rows : m.columns;
    // Lines of nothing may be any number.
    const int64_t count = across == 0 && !is_told ? 0 : by_columns ? m.columns : m.rows;
    for (int64_t line = 0; line < count; ++line) {
        for (int64_t i = 0; i < across; ++i) {
            walk.step();
            const T value = at<T>(m.values)[by_columns ? places.of(i, line) : places.of(line, i)];
            if (static_cast<Computed<T>>(value) != Computed<T>{}) body(line, i, value);
        }
        walk.step();
        ended(line);
    }
}

}  // namespace

CUresult run(to_dense& m, Type, Work& work) {
    return of_value(m.A.type, [&]<typename T>(T*) {
        Walk walk(work);
        const Places places(m.B, 0, 0);
        T* const to = at<T>(m.B.values);
        const bool by_rows = m.B.order == kByRows;
        const int64_t across = by_rows ? m.B.columns : m.B.rows;
        for (int64_t i = 0; i < (by_rows ? m.B.rows : m.B.columns) && to && across > 0; ++i) {
            std::fill_n(to + i * m.B.lead, across, T{});
            walk.step(across);
        }
        for_entries(m.A, "A", 0, walk, [&](int64_t row, int64_t column, int64_t place) {
            to[places.of(row, column)] = at<T>(m.A.values)[place];
        });
    });
}

CUresult run(to_sparse_count& m, Type, Work& work) {
    int64_t count = 0;
    const CUresult result = of_value(m.A.type, [&]<typename T>(T*) {
        Walk walk(work);
        const Indices offsets = offsets_of(m.B);
        const bool has_offsets = m.B.format != kCoo && lines(m.B) > 0;
        if (has_offsets) offsets.put(0, 0);
        for_numbers<T>(
            m.A, m.B.format == kCsc, has_offsets, walk, [&](int64_t, int64_t, T) { ++count; },
            [&](int64_t line) {
                if (has_offsets) offsets.put(line + 1, count);
            });
        if (has_offsets && !offsets.holds(count)) walk.fail_width("B", count);
    });
    if (result == CUDA_SUCCESS) put_count(m.count, count);
    return result;
}

// The numbers may be others by now than those that were counted.
CUresult run(to_sparse& m, Type, Work& work) {
    return of_value(m.A.type, [&]<typename T>(T*) {
        Walk walk(work);
        const Indices offsets = offsets_of(m.B), indices = indices_of(m.B);
        const bool has_offsets = m.B.format != kCoo && lines(m.B) > 0;
        int64_t count = 0;
        if (has_offsets) offsets.put(0, 0);
        for_numbers<T>(
            m.A, m.B.format == kCsc, has_offsets, walk,
            [&](int64_t line, int64_t i, T value) {
                if (count == m.B.entries) walk.fail_room("B", m.B.entries);
                if (!has_offsets) offsets.put(count, line);
                indices.put(count, i);
                at<T>(m.B.values)[count++] = value;
            },
            [&](int64_t line) {
                if (has_offsets) offsets.put(line + 1, count);
            });
    });
}

}  // namespace maths::cusparse
