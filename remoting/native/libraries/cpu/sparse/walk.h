// Over the entries of sparse matrices in the slice. Their offsets and indices steer, and another stream may
// change them at any time: so each is read once, checked, and what was read is used. Offsets do not go back,
// so there are never more entries than the matrix has memory for.
#pragma once

#include <algorithm>
#include <complex>
#include <functional>
#include <string>
#include <vector>

#include "cusparse_messages.h"
#include "number.h"
#include "watch.h"

namespace maths::cusparse {

// A long call: its operands are named where they are wrong, and it ends where it is interrupted.
class Walk {
  public:
    explicit Walk(const Work& work) : work_(work), watch_(work) {}

    void step(int64_t steps = 1) {
        if (watch_.stops(steps)) throw Stopped{};
    }
    [[noreturn]] void fail_index(const char* operand, const char* part, int64_t index, int64_t limit) const {
        work_.fail(CUDA_ERROR_ILLEGAL_ADDRESS, std::string(operand) + "." + part + " has " +
                                                   std::to_string(index) + " (from 0), and there are " +
                                                   std::to_string(limit));
    }
    [[noreturn]] void fail_offset(const char* operand, int64_t from, int64_t to, int64_t entries) const {
        work_.fail(CUDA_ERROR_ILLEGAL_ADDRESS, std::string(operand) + ".offsets go from " +
                                                   std::to_string(from) + " to " + std::to_string(to) +
                                                   ", and there are " + std::to_string(entries) + " entries");
    }
    [[noreturn]] void fail_room(const char* operand, int64_t entries) const {
        work_.fail(CUDA_ERROR_ILLEGAL_ADDRESS, std::string(operand) + " has room for " +
                                                   std::to_string(entries) + " entries, and there are more");
    }
    [[noreturn]] void fail_width(const char* operand, int64_t entries) const {
        work_.fail(CUDA_ERROR_INVALID_VALUE, std::string(operand) + ".offsets have 32 bits, and there are " +
                                                 std::to_string(entries) + " entries");
    }

  private:
    const Work& work_;
    Watch watch_;
};

// Integers in the slice, counted from `base`.
class Indices {
  public:
    Indices(uint64_t address, int64_t first, int32_t type, int32_t base)
        : address_(address), first_(first), is_wide_(type == kIndex64), base_(base) {}

    int64_t get(int64_t i) const {
        const int64_t read = is_wide_ ? at<const volatile int64_t>(address_)[first_ + i]
                                      : at<const volatile int32_t>(address_)[first_ + i];
        return static_cast<int64_t>(static_cast<uint64_t>(read) - static_cast<uint64_t>(base_));
    }
    int64_t below(int64_t limit, int64_t i, const char* operand, const char* part, const Walk& walk) const {
        const int64_t index = get(i);
        if (index < 0 || index >= limit) walk.fail_index(operand, part, index, limit);
        return index;
    }
    bool holds(int64_t index) const { return is_wide_ || index + base_ <= INT32_MAX; }
    void put(int64_t i, int64_t index) const {
        if (is_wide_) {
            at<int64_t>(address_)[first_ + i] = index + base_;
        } else {
            at<int32_t>(address_)[first_ + i] = static_cast<int32_t>(index + base_);
        }
    }

  private:
    const uint64_t address_;
    const int64_t first_;
    const bool is_wide_;
    const int64_t base_;
};

// Any numbers have an order, and it can be interrupted.
template <typename Element, typename Less = std::less<Element>>
void sort(std::vector<Element>& elements, Walk& walk, Less less = {}, size_t from = 0) {
    std::stable_sort(elements.begin() + static_cast<std::ptrdiff_t>(from), elements.end(),
                     [&](const Element& a, const Element& b) {
                         walk.step();
                         return less(a, b);
                     });
}

// A result of 64 bits.
inline void put_count(uint64_t place, int64_t count) {
    at<int64_t>(place)[0] = count;
}

inline int64_t nth_stride(int64_t stride, int64_t batch, int64_t count) {
    return count == 1 ? 0 : stride * batch;
}
// With those of its blocks.
inline uint64_t elements_of(const Sparse& m) {
    return product(length(m.entries), product(length(m.block_rows), length(m.block_columns)));
}
inline Indices offsets_of(const Sparse& m, int64_t batch = 0) {
    return {m.offsets, nth_stride(m.offset_stride, batch, m.batch), m.offset_type, m.base};
}
inline Indices indices_of(const Sparse& m, int64_t batch = 0) {
    return {m.indices, nth_stride(m.index_stride, batch, m.batch), m.index_type, m.base};
}
// The values of the n-th matrix of a batch; of a batch of one, that one.
template <typename T, typename Described>
T* values_of(const Described& m, int64_t stride, int64_t batch) {
    return at<T>(m.values) + nth_stride(stride, batch, m.batch);
}

// Calls `body` with row, column and place of its value for each element of a block.
template <typename Body>
void for_block(const Sparse& m, int64_t row, int64_t column, int64_t entry, Body& body) {
    if (m.block_rows == 1 && m.block_columns == 1) return body(row, column, entry);
    const int64_t first = entry * m.block_rows * m.block_columns;
    for (int64_t i = 0; i < m.block_rows; ++i) {
        for (int64_t j = 0; j < m.block_columns; ++j) {
            const int64_t within = m.block_order == kByRows ? i * m.block_columns + j : j * m.block_rows + i;
            body(row * m.block_rows + i, column * m.block_columns + j, first + within);
        }
    }
}

// Calls `body` with row, column and place of its value for each entry of the n-th matrix, in the order in
// which they lie.
template <typename Body>
void for_entries(const Sparse& m, const char* name, int64_t batch, Walk& walk, Body body) {
    const Indices offsets = offsets_of(m, batch), indices = indices_of(m, batch);
    const int64_t volume = m.block_rows * m.block_columns;
    if (m.format == kCoo) {
        for (int64_t k = 0; k < m.entries; ++k) {
            walk.step();
            const int64_t row = offsets.below(m.rows, k, name, "rows", walk);
            body(row, indices.below(m.columns, k, name, "indices", walk), k);
        }
        return;
    }
    const int64_t count = lines(m), across = m.format == kCsc ? m.rows : m.columns;
    int64_t end = count > 0 ? offsets.get(0) : 0;
    if (end < 0 || end > m.entries) walk.fail_offset(name, 0, end, m.entries);
    for (int64_t line = 0; line < count; ++line) {
        walk.step();
        const int64_t begin = end;
        end = offsets.get(line + 1);
        if (end < begin || end > m.entries) walk.fail_offset(name, begin, end, m.entries);
        for (int64_t k = begin; k < end; ++k) {
            walk.step(volume);
            const int64_t other = indices.below(across, k, name, "indices", walk);
            const bool by_columns = m.format == kCsc;
            for_block(m, by_columns ? other : line, by_columns ? line : other, k, body);
        }
    }
}

// What a number is computed in.
template <typename T>
struct ComputedIn {
    using Type = T;
};
template <>
struct ComputedIn<Half> {
    using Type = float;
};
template <>
struct ComputedIn<Bfloat16> {
    using Type = float;
};
template <>
struct ComputedIn<int8_t> {
    using Type = double;  // its sums are exact
};
template <typename T>
using Computed = typename ComputedIn<T>::Type;

// Calls `body` with a pointer to the type of values.
template <typename Body>
CUresult of_value(int64_t type, Body body) {
    switch (type) {
        case kF32:
            return body(static_cast<float*>(nullptr)), CUDA_SUCCESS;
        case kF64:
            return body(static_cast<double*>(nullptr)), CUDA_SUCCESS;
        case kC32:
            return body(static_cast<std::complex<float>*>(nullptr)), CUDA_SUCCESS;
        case kC64:
            return body(static_cast<std::complex<double>*>(nullptr)), CUDA_SUCCESS;
        case kF16:
            return body(static_cast<Half*>(nullptr)), CUDA_SUCCESS;
        case kB16:
            return body(static_cast<Bfloat16*>(nullptr)), CUDA_SUCCESS;
        case kI8:
            return body(static_cast<int8_t*>(nullptr)), CUDA_SUCCESS;
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

// Without the looks for infinity that the standard's product of complex numbers has.
template <typename A>
A times(A a, A b) {
    if constexpr (kIsComplex<A>) {
        return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
    } else {
        return a * b;
    }
}
template <typename A>
A operated(int64_t op, A value) {
    if constexpr (kIsComplex<A>) {
        return op == 2 ? std::conj(value) : value;
    } else {
        return value;
    }
}
inline Number times(Number a, Number b) {
    return times<Number>(a, b);
}

// Where the elements of the n-th dense matrix lie, as the operation has it.
struct Places {
    Places(const Dense& m, int64_t op, int64_t batch)
        : first(nth_stride(m.stride, batch, m.batch)),
          down((m.order == kByRows) == (op == 0) ? m.lead : 1),
          right((m.order == kByRows) == (op == 0) ? 1 : m.lead) {}

    int64_t of(int64_t row, int64_t column) const { return first + row * down + column * right; }

    int64_t first, down, right;
};

// alpha * result + beta * what is there, which is not read for beta 0.
class Blend {
  public:
    Blend(const Scalar& alpha, const Scalar& beta, int64_t scalars)
        : alpha_(get(as_type(scalars), alpha.bytes, 0)), beta_(get(as_type(scalars), beta.bytes, 0)) {}

    bool is_all_old() const { return alpha_ == Number(0); }
    void put_at(int64_t type, void* to, int64_t i, Number result) const {
        Number value = is_all_old() ? Number(0) : times(alpha_, result);
        if (beta_ != Number(0)) value += times(beta_, get(as_type(type), to, i));
        put(as_type(type), to, i, value);
    }

  private:
    const Number alpha_, beta_;
};

}  // namespace maths::cusparse
