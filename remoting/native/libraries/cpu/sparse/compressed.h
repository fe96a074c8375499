// A sparse matrix of the slice, copied: row by row, where rows are needed in another order than that in which
// they lie, and again. It takes as much memory of the process as the matrix' values and indices have in the
// slice, some times over.
#pragma once

#include <vector>

#include "sparse/walk.h"

namespace maths::cusparse {

template <typename T>
struct Compressed {
    struct Entry {
        int64_t row, column;
        T value;
    };

    // op(M). Without values of its own a matrix has none here.
    Compressed(const Sparse& m, const char* name, int64_t op, Walk& walk);

    // What it takes at most, while it is made.
    static uint64_t bytes_for(const Sparse& m, int64_t op) {
        const uint64_t each = sizeof(Entry) + sizeof(int64_t) + sizeof(T);
        return sum(product(elements_of(m), each), product(sum(rows_of(op, m), 1), 2 * sizeof(int64_t)));
    }

    int64_t rows;
    std::vector<int64_t> offsets, columns;
    std::vector<T> values;
};

}  // namespace maths::cusparse
