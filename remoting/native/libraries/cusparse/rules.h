// cuSPARSE's functions: what goes together, what is done, and which memory descriptors hold. What lies in
// that memory is looked at where it is used.
#pragma once

#include <string>

#include "cusparse/descriptors.h"
#include "operands.h"

namespace maths::cusparse {

constexpr bool is_direction(int64_t value) {
    return value == kBlocksByRows || value == kBlocksByColumns;
}
constexpr bool is_base(int64_t value) {
    return value == 0 || value == 1;
}
constexpr bool is_blas(int64_t type) {
    return type == kF32 || type == kF64 || type == kC32 || type == kC64;
}
// Of the scalars where no type is asked for.
constexpr Type scale_of(int64_t type) {
    return type == kF16 || type == kB16 ? kF32 : as_type(type);
}
// What is multiplied, by what, into what, and in which numbers.
constexpr bool is_product(int64_t a, int64_t b, int64_t result, int64_t compute) {
    if (a != b) return false;
    if (is_blas(a)) return result == a && compute == a;
    if (a == kI8) return (result == kI32 && compute == kI32) || (result == kF32 && compute == kF32);
    return (a == kF16 || a == kB16) && compute == kF32 && (result == a || result == kF32);
}

constexpr Type type_of_index(int32_t type) {
    return type == kIndex64 ? kI64 : kI32;
}
constexpr bool is_index_type(int32_t type) {
    return type == kIndex32 || type == kIndex64;
}

// In elements; a matrix that fits has fewer than 64 bits hold.
constexpr uint64_t height(const Sparse& m) {
    return product(length(m.rows), length(m.block_rows));
}
constexpr uint64_t width(const Sparse& m) {
    return product(length(m.columns), length(m.block_columns));
}
// What its offsets go along: rows, or columns.
constexpr int64_t lines(const Sparse& m) {
    return m.format == kCsc ? m.columns : m.rows;
}
constexpr bool is_sparse(const Sparse& m) {
    const bool is_known = m.format == kCsr || m.format == kCsc || m.format == kCoo || m.format == kBsr;
    const bool is_sized =
        m.rows >= 0 && m.columns >= 0 && m.entries >= 0 && m.block_rows >= 1 && m.block_columns >= 1;
    if (!is_known || !is_sized || height(m) > INT64_MAX || width(m) > INT64_MAX) return false;
    if (product(length(m.block_rows), length(m.block_columns)) > INT64_MAX) return false;
    if (m.format != kBsr && (m.block_rows != 1 || m.block_columns != 1)) return false;
    if (m.block_order != kByColumns && m.block_order != kByRows) return false;
    const bool is_indexed = is_index_type(m.offset_type) && is_index_type(m.index_type) && is_base(m.base);
    const bool is_batch =
        m.batch >= 1 && is_int(m.batch) && m.offset_stride >= 0 && m.index_stride >= 0 && m.value_stride >= 0;
    return is_indexed && is_batch && is_fill(m.fill) && is_diag(m.diag);
}
constexpr bool is_dense(const Dense& m) {
    const bool is_ordered = m.order == kByColumns || m.order == kByRows;
    return is_ordered && m.rows >= 0 && m.columns >= 0 && m.batch >= 1 && is_int(m.batch) && m.stride >= 0;
}
constexpr bool is_entries(const Entries& v) {
    return is_index_type(v.index_type) && is_base(v.base) && v.size >= 0 && v.count >= 0 && v.count <= v.size;
}
constexpr bool is_one(const Sparse& m) {
    return is_sparse(m) && m.batch == 1;
}
constexpr bool is_one(const Dense& m) {
    return is_dense(m) && m.batch == 1;
}

constexpr uint64_t rows_of(int64_t op, const Sparse& m) {
    return op == 0 ? height(m) : width(m);
}
constexpr uint64_t columns_of(int64_t op, const Sparse& m) {
    return op == 0 ? width(m) : height(m);
}
constexpr uint64_t rows_of(int64_t op, const Dense& m) {
    return length(op == 0 ? m.rows : m.columns);
}
constexpr uint64_t columns_of(int64_t op, const Dense& m) {
    return length(op == 0 ? m.columns : m.rows);
}
template <typename A, typename B>
constexpr bool same_shape(int64_t op_a, const A& a, int64_t op_b, const B& b) {
    return rows_of(op_a, a) == rows_of(op_b, b) && columns_of(op_a, a) == columns_of(op_b, b);
}
// Each of a batch, or the same one for all.
constexpr bool batched_alike(int64_t a, int64_t b, int64_t result) {
    return (a == 1 || a == result) && (b == 1 || b == result);
}

constexpr bool pairs(const Entries& x, const Vector& y) {
    return is_entries(x) && x.size == y.size;
}
constexpr bool multiplies(int64_t op, const Sparse& a, const Vector& x, const Vector& y) {
    if (!is_one(a) || x.size < 0 || y.size < 0) return false;
    return columns_of(op, a) == length(x.size) && rows_of(op, a) == length(y.size);
}
template <typename A, typename B, typename C>
constexpr bool multiplies(int64_t op_a, int64_t op_b, const A& a, const B& b, const C& c) {
    return columns_of(op_a, a) == rows_of(op_b, b) && rows_of(op_a, a) == rows_of(0, c) &&
           columns_of(op_b, b) == columns_of(0, c);
}
constexpr bool is_spmm(int64_t op_a, int64_t op_b, const Sparse& a, const Dense& b, const Dense& c) {
    const bool are = is_sparse(a) && is_dense(b) && is_dense(c) && batched_alike(a.batch, b.batch, c.batch);
    return are && multiplies(op_a, op_b, a, b, c);
}
constexpr bool is_sddmm(int64_t op_a, int64_t op_b, const Dense& a, const Dense& b, const Sparse& c) {
    const bool are = is_dense(a) && is_dense(b) && is_sparse(c) && batched_alike(a.batch, b.batch, c.batch);
    return are && multiplies(op_a, op_b, a, b, c);
}
// C's entries are found.
constexpr bool is_spgemm(const Sparse& a, const Sparse& b, const Sparse& c) {
    return is_one(a) && is_one(b) && is_one(c) && multiplies(0, 0, a, b, c);
}
constexpr bool is_csr_alone(const Sparse& a, const Sparse& b, const Sparse& c) {
    return a.format == kCsr && b.format == kCsr && c.format == kCsr;
}
// Of sums.
constexpr bool is_geam(const Sparse& a, const Sparse& b, const Sparse& c) {
    const bool are = is_one(a) && is_one(b) && is_one(c) && is_csr_alone(a, b, c);
    return are && same_shape(0, a, 0, b) && same_shape(0, a, 0, c);
}
constexpr bool is_square(const Sparse& a) {
    return is_one(a) && height(a) == width(a);
}
constexpr bool solves(const Sparse& a, const Vector& x, const Vector& y) {
    return is_square(a) && x.size >= 0 && x.size == y.size && height(a) == length(x.size);
}
constexpr bool solves(int64_t op, const Sparse& a, const Dense& b, const Dense& c) {
    return is_square(a) && is_one(b) && is_one(c) && same_shape(op, b, 0, c) && height(a) == rows_of(0, c);
}
constexpr bool converts(const Sparse& sparse, const Dense& dense) {
    return is_one(sparse) && is_one(dense) && same_shape(0, sparse, 0, dense);
}

// What a call does with what a descriptor holds: reads it; reads and writes the values, or writes them alone,
// of a given pattern; writes all; writes the offsets, and
// nothing else, or not even them where there are none; reads all but the values.
enum class Holds { in, change, out, whole, offsets, counted, pattern };

constexpr Access access_of(Holds holds) {
    return holds == Holds::in || holds == Holds::pattern ? Access::kRead
           : holds == Holds::change                      ? Access::kChange
                                                         : Access::kWrite;
}

void show(Look& look, const char* name, Sparse& m, Holds holds);
void show(Look& look, const char* name, Dense& m, Holds holds);
void show(Look& look, const char* name, Vector& v, Holds holds);
void show(Look& look, const char* name, Entries& v, Holds holds);

constexpr bool is_matdescr(const MatDescr& m) {
    return m.type >= 0 && m.type <= 3 && is_fill(m.fill) && is_diag(m.diag) && is_base(m.base);
}

}  // namespace maths::cusparse
