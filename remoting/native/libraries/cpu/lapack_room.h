// How much LAPACK works in, by its documentation: as little as a function may have, and room for blocks of as
// many columns as the matrix has at most. What LAPACK answers when it is asked is a multiple of a thin
// matrix.
#pragma once

#include <algorithm>

#include "extents.h"
#include "work.h"

namespace maths {

struct LapackRoom {
    uint64_t numbers = 1, reals = 1, integers = 1;
};

constexpr uint64_t area(int64_t rows, int64_t columns) {
    return product(length(rows), length(columns));
}
constexpr uint64_t blocks_of(int64_t n, int64_t most) {
    return area(std::max<int64_t>(1, n), std::clamp<int64_t>(most, 1, 32));
}

// A factorisation by rows or columns of length n, with k reflectors; and what turns it into a matrix.
constexpr LapackRoom room_of_reflectors(int64_t n, int64_t k) {
    constexpr int64_t kTriangle = 65 * 64;
    return {sum(blocks_of(n, k), kTriangle), 1, 1};
}

constexpr LapackRoom room_of_eigenvalues(int64_t n, bool vectors, bool is_complex) {
    const uint64_t few = sum(product(10, length(n)), blocks_of(n, n)), square = area(n, n);
    if (is_complex) return {sum(few, vectors ? square : 0), sum(few, vectors ? product(2, square) : 0), few};
    return {sum(few, vectors ? product(2, square) : 0), 1, few};
}

// Of a matrix that need not be symmetric: three blocks of columns, and the triangles of reflectors.
constexpr LapackRoom room_of_any_eigenvalues(int64_t n, bool is_complex) {
    constexpr uint64_t kTriangle = 65 * 64;
    const uint64_t blocks = sum(product(3, blocks_of(n, n)), kTriangle);
    return {sum(product(5, length(n)), blocks), is_complex ? sum(product(2, length(n)), 1) : 1, 1};
}

// By gesvd, or by gesdd (divide and conquer).
constexpr LapackRoom room_of_singular_values(int64_t m, int64_t n, bool vectors, bool conquers,
                                             bool is_complex) {
    const int64_t few = std::min(m, n), many = std::max(m, n);
    const uint64_t square = area(few, few), list = sum(product(12, length(few)), length(many));
    const uint64_t blocks = sum(blocks_of(m, few), blocks_of(n, few));
    const uint64_t least =
        sum(sum(list, blocks), product(vectors && conquers && !is_complex ? 4 : 2, square));
    if (!is_complex) return {least, 1, product(8, length(few))};
    const uint64_t of_vectors = sum(product(5, square), product(2, area(many, few)));
    return {least, sum(list, vectors && conquers ? of_vectors : 0), product(8, length(few))};
}

template <typename T>
class LapackMemory {
  public:
    static uint64_t bytes_of(const LapackRoom& room) {
        return sum(product(room.numbers, sizeof(T)),
                   sum(product(room.reals, sizeof(Real<T>)), product(room.integers, 8)));
    }
    explicit LapackMemory(const LapackRoom& room)
        : numbers_(room.numbers), reals_(kIsComplex<T> ? room.reals : 0), integers_(room.integers) {}

    T* numbers() { return numbers_.data(); }
    int64_t count() const { return static_cast<int64_t>(numbers_.size()); }
    Real<T>* reals() { return reals_.data(); }
    int64_t real_count() const { return static_cast<int64_t>(reals_.size()); }
    int64_t* integers() { return integers_.data(); }
    int64_t integer_count() const { return static_cast<int64_t>(integers_.size()); }

  private:
    std::vector<T> numbers_;
    std::vector<Real<T>> reals_;
    std::vector<int64_t> integers_;
};

}  // namespace maths
