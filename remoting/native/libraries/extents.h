// How many elements an operand spans, from the sizes that a program gave. The sizes may be anything that 64 bits hold:
// nothing here overflows, and what no memory can hold becomes kEndless, which no memory does.
#pragma once

#include <algorithm>
#include <cstdint>

namespace maths {

inline constexpr uint64_t kEndless = UINT64_MAX;

struct Extent {
    bool fits;  // the sizes go together
    uint64_t elements;
};

constexpr uint64_t product(uint64_t a, uint64_t b) {
    uint64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? kEndless : result;
}
constexpr uint64_t sum(uint64_t a, uint64_t b) {
    uint64_t result = 0;
    return __builtin_add_overflow(a, b, &result) ? kEndless : result;
}

// Sizes of lists: those that are negative have no elements, or do not fit, as the caller says.
constexpr uint64_t length(int64_t n) {
    return n > 0 ? static_cast<uint64_t>(n) : 0;
}
constexpr int64_t plus(int64_t a, int64_t b, int64_t c) {
    int64_t result = 0;
    const bool over = __builtin_add_overflow(a, b, &result) || __builtin_add_overflow(result, c, &result);
    return over ? INT64_MAX : result;
}

constexpr Extent exactly(int64_t n) {
    return {true, length(n)};
}
constexpr Extent one() {
    return exactly(1);
}

// `n` elements in steps, from the lowest address whatever the step's sign.
constexpr Extent spread(int64_t n, int64_t step) {
    if (n <= 0) return {true, 0};
    const uint64_t apart = step < 0 ? 0 - static_cast<uint64_t>(step) : static_cast<uint64_t>(step);
    return {true, sum(product(length(n) - 1, apart), 1)};
}
// The same of what must not be one element many times.
constexpr Extent vector(int64_t n, int64_t step) {
    return {step != 0, spread(n, step).elements};
}

// By columns, which are `lead` elements apart.
constexpr Extent matrix(int64_t rows, int64_t columns, int64_t lead) {
    const bool fits = rows >= 0 && columns >= 0 && lead >= std::max<int64_t>(1, rows);
    if (!fits || rows == 0 || columns == 0) return {fits, 0};
    return {true, sum(product(length(columns) - 1, length(lead)), length(rows))};
}
// By columns (order 0), or by rows (1).
constexpr Extent ordered(int64_t order, int64_t rows, int64_t columns, int64_t lead) {
    return order == 0 ? matrix(rows, columns, lead) : matrix(columns, rows, lead);
}
// A matrix of which the operation's result has these rows and columns.
constexpr Extent factor(int64_t operation, int64_t rows, int64_t columns, int64_t lead) {
    return operation == 0 ? matrix(rows, columns, lead) : matrix(columns, rows, lead);
}
// One that stands at the left (0) or the right of a matrix of m rows and n columns.
constexpr Extent square(int64_t side, int64_t m, int64_t n, int64_t lead) {
    const int64_t order = side == 0 ? m : n;
    return matrix(order, order, lead);
}
// A triangle without gaps. Of the two factors that are next to each other, the even one is halved.
constexpr Extent packed(int64_t n) {
    const uint64_t order = length(n);
    return {n >= 0, order % 2 == 0 ? product(order / 2, sum(order, 1)) : product(order, (order - 1) / 2 + 1)};
}
// `count` lists of `n`, one behind the other.
constexpr Extent each(int64_t n, int64_t count) {
    return {true, product(length(n), length(count))};
}
// `count` operands, each `stride` elements behind the one before.
constexpr Extent strided(Extent one, int64_t stride, int64_t count) {
    if (!one.fits || stride < 0 || count < 0) return {false, 0};
    if (one.elements == 0 || count == 0) return {true, 0};
    return {true, sum(product(length(count) - 1, length(stride)), one.elements)};
}

constexpr Extent unless(bool left, Extent extent) {
    return left ? Extent{extent.fits, 0} : extent;
}

}  // namespace maths
