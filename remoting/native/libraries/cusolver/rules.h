// cuSOLVER's functions: what their results span, and what can be asked for.
#pragma once

#include <algorithm>

#include "operands.h"

namespace maths::cusolver {

// cusolverEigMode_t: whether vectors are wanted.
constexpr bool is_job(int64_t value) {
    return value == 0 || value == 1;
}
constexpr int64_t smaller(int64_t a, int64_t b) {
    return std::min(a, b);
}
// What lies beside a diagonal.
constexpr int64_t less(int64_t n) {
    return n > 0 ? n - 1 : 0;
}
// What matrices of a batch are apart that lie without gaps.
constexpr int64_t times(int64_t a, int64_t b) {
    int64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

// Singular vectors as a letter asks for them: all (A), as many as there are values (S), in A's place (O),
// none (N).
constexpr bool is_letter(int64_t letter) {
    return letter == 'A' || letter == 'S' || letter == 'O' || letter == 'N';
}
constexpr Extent left_vectors(int64_t letter, int64_t m, int64_t n, int64_t lead) {
    const bool any = letter == 'A' || letter == 'S';
    return any ? matrix(m, letter == 'A' ? m : smaller(m, n), lead) : Extent{lead >= 1, 0};
}
constexpr Extent right_vectors(int64_t letter, int64_t m, int64_t n, int64_t lead) {
    const bool any = letter == 'A' || letter == 'S';
    return any ? matrix(letter == 'A' ? n : smaller(m, n), n, lead) : Extent{lead >= 1, 0};
}
// The same as columns, all or the `economical` part of them.
constexpr Extent vectors(int64_t job, int64_t economical, int64_t rows, int64_t m, int64_t n, int64_t lead) {
    if (job == 0) return {lead >= 1, 0};
    return matrix(rows, economical ? smaller(m, n) : rows, lead);
}

// What need not be there unless a job asks for it.
constexpr Extent wanted(int64_t job, Extent extent) {
    return job == 0 ? Extent{true, 0} : extent;
}
// Eigenvalues of any matrix: complex numbers, or real parts and then imaginary ones.
constexpr int64_t parts(int64_t type, int64_t as, int64_t n) {
    return is_complex(as) == is_complex(type) && !is_complex(type) ? times(n, 2) : n;
}

// cusparseIndexBase_t.
constexpr bool is_base(int64_t value) {
    return value == 0 || value == 1;
}

// Operations of real numbers, of which LAPACK does so many for a function.
constexpr double cubed(int64_t n) {
    return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}
// Two triangular systems with `columns` right-hand sides.
constexpr double of_solutions(int64_t n, int64_t columns) {
    return 2 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(columns);
}
// One column after another: each number of the matrix is fetched again, which takes as long as ten operations
// that find it at hand.
constexpr double of_block_solutions(int64_t n, int64_t columns) {
    return 10 * of_solutions(n, columns);
}
// A factorisation of m rows and n columns.
constexpr double of_factors(int64_t m, int64_t n) {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::min(m, n));
}
// In the order of the rows it is done here, and can be interrupted.
constexpr double of_lu(uint64_t pivots, int64_t m, int64_t n) {
    return pivots ? of_factors(m, n) : 0;
}
constexpr double of_reflections(int64_t m, int64_t n, int64_t k) {
    return 4.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}
constexpr double of_eigenvalues(int64_t job, int64_t n) {
    return (job ? 9.0 : 4.0 / 3) * cubed(n);
}
constexpr double of_any_eigenvalues(int64_t job, int64_t n) {
    return (job ? 26.0 : 10.0) * cubed(n);
}
constexpr double of_singular_values(int64_t m, int64_t n) {
    return 2 * of_factors(m, n);
}
// `economical`: the vectors that have values, rather than a whole base of the larger space.
constexpr double of_singular_vectors(int64_t job, int64_t economical, int64_t m, int64_t n) {
    const double few = static_cast<double>(std::min(m, n)), many = static_cast<double>(std::max(m, n));
    if (job == 0) return of_singular_values(m, n);
    const double of_base = economical ? 0 : 4 * (many - few) * many * few;
    return of_singular_values(m, n) + 22 * few * few * few + of_base;
}
constexpr double of_singular_vectors_by_letters(int64_t left, int64_t right, int64_t m, int64_t n) {
    return of_singular_vectors(left != 'N' || right != 'N', left != 'A' && right != 'A', m, n);
}

constexpr bool is_lapack(int64_t type) {
    return type == kF32 || type == kF64 || type == kC32 || type == kC64;
}

}  // namespace maths::cusolver
