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

constexpr bool is_lapack(int64_t type) {
    return type == kF32 || type == kF64 || type == kC32 || type == kC64;
}

}  // namespace maths::cusolver
