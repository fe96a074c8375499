// cuSOLVER's functions, by LAPACK. What lies in the slice others may write meanwhile, and LAPACK reads again what it has
// written: so it works on copies, which are as large as the operands, and what it wants beside them is of their order too.
#include "cusolver_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <new>

#include "blas.h"

namespace maths::cusolver {
namespace {

template <typename T>
struct Lapack;

#define GK_SOLVER(t, name) static constexpr auto name = scipy_LAPACKE_##t##name##64_;
#define GK_SOLVER_AS(t, name, as) static constexpr auto as = scipy_LAPACKE_##t##name##64_;
#define GK_FOR_SOLVER(X, t)                                                                                       \
    X(t, potrf) X(t, potri) X(t, potrs) X(t, getrf) X(t, getrs) X(t, geqrf) X(t, sytrf) X(t, sytrs) X(t, gesvd) \
    X(t, gesdd)

template <>
struct Lapack<float> {
    GK_FOR_SOLVER(GK_SOLVER, s)
    GK_SOLVER(s, orgqr) GK_SOLVER(s, ormqr) GK_SOLVER(s, syevd) GK_SOLVER(s, sygvd)
};
template <>
struct Lapack<double> {
    GK_FOR_SOLVER(GK_SOLVER, d)
    GK_SOLVER(d, orgqr) GK_SOLVER(d, ormqr) GK_SOLVER(d, syevd) GK_SOLVER(d, sygvd)
};
template <>
struct Lapack<std::complex<float>> {
    GK_FOR_SOLVER(GK_SOLVER, c)
    GK_SOLVER_AS(c, ungqr, orgqr) GK_SOLVER_AS(c, unmqr, ormqr)
    GK_SOLVER_AS(c, heevd, syevd) GK_SOLVER_AS(c, hegvd, sygvd)
};
template <>
struct Lapack<std::complex<double>> {
    GK_FOR_SOLVER(GK_SOLVER, z)
    GK_SOLVER_AS(z, ungqr, orgqr) GK_SOLVER_AS(z, unmqr, ormqr)
    GK_SOLVER_AS(z, heevd, syevd) GK_SOLVER_AS(z, hegvd, sygvd)
};

// A matrix of the slice, copied without gaps. Without an address it is one of zeros that nothing is written to.
template <typename T>
class Own {
  public:
    Own(T* place, int64_t rows, int64_t columns, int64_t lead)
        : place_(place), rows_(rows), columns_(columns), apart_(lead), values_(static_cast<size_t>(rows * columns)) {
        for (int64_t j = 0; j < columns_ && place_; ++j) std::copy_n(place_ + j * apart_, rows_, column(j));
    }
    Own(uint64_t address, int64_t rows, int64_t columns, int64_t lead) : Own(at<T>(address), rows, columns, lead) {}

    T* data() { return values_.data(); }
    lapack_int lead() const { return std::max<int64_t>(1, rows_); }
    T* column(int64_t j) { return values_.data() + j * rows_; }
    bool is_finite() {
        return std::all_of(values_.begin(), values_.end(), has_finite_parts);
    }
    // Of a square one, the triangle that `fill` names.
    bool is_finite(int64_t fill) {
        for (int64_t j = 0; j < columns_; ++j) {
            const bool is_lower = fill == 0;
            if (!std::all_of(column(j) + (is_lower ? j : 0), column(j) + (is_lower ? rows_ : j + 1), has_finite_parts)) {
                return false;
            }
        }
        return true;
    }
    void fill_with_nan() { std::fill(values_.begin(), values_.end(), std::numeric_limits<Real<T>>::quiet_NaN()); }
    void store() {
        for (int64_t j = 0; j < columns_ && place_; ++j) std::copy_n(column(j), rows_, place_ + j * apart_);
    }

  private:
    static bool has_finite_parts(const T& value) {
        return std::isfinite(std::real(value)) && std::isfinite(std::imag(value));
    }

    T* const place_;
    const int64_t rows_, columns_, apart_;
    std::vector<T> values_;
};

template <typename T>
Own<T> own_vector(uint64_t address, int64_t n) {
    return Own<T>(address, n, 1, n);
}

// What copies of matrices take, and what LAPACK wants beside them.
uint64_t area(int64_t rows, int64_t columns) {
    return product(length(rows), length(columns));
}
template <typename T>
void reserve(Work& work, std::initializer_list<uint64_t> numbers) {
    uint64_t all = 0;
    for (const uint64_t each : numbers) all = sum(all, each);
    work.reserve(product(all, sizeof(T)));
}
// Of a factorisation by blocks, for rows or columns.
uint64_t blocks_of(int64_t n) {
    constexpr int64_t kBlock = 64, kTriangle = kBlock * (kBlock + 1);
    return sum(area(n, kBlock), kTriangle);
}
// Of eigenvalues by divide and conquer, with their lists of integers.
uint64_t conquered(int64_t n) {
    return sum(product(3, area(n, n)), sum(blocks_of(n), area(n, 16)));
}

char fill_letter(int64_t fill) {
    return fill == 0 ? 'L' : 'U';
}
char job_letter(int64_t job) {
    return job == 0 ? 'N' : 'V';
}
template <typename T>
char op_letter(int64_t op) {
    return op == 0 ? 'N' : op == 1 || !kIsComplex<T> ? 'T' : 'C';
}

void put_info(uint64_t place, int64_t i, lapack_int info) {
    if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR) throw std::bad_alloc();
    at<int32_t>(place)[i] = static_cast<int32_t>(info);
}

// Iterations to eigenvalues and singular values do not converge on what is no number, and LAPACK says so on standard output:
// there are none, as where an iteration has not converged.
template <typename... Results>
lapack_int no_values(int64_t count, Results&... results) {
    (results.fill_with_nan(), ...);
    return std::max<int64_t>(1, count);
}

using Pivots = std::vector<lapack_int>;

// Of integers of 32 bits, or of 64.
template <typename Integer>
Pivots pivots_of(uint64_t address, int64_t n) {
    Pivots pivots(static_cast<size_t>(n));
    // Without any, no rows are exchanged.
    const volatile Integer* const from = at<Integer>(address);  // read once, as another may change it
    for (int64_t i = 0; i < n; ++i) pivots[static_cast<size_t>(i)] = from ? from[i] : i + 1;
    return pivots;
}
template <typename Integer>
void store_pivots(uint64_t address, const Pivots& pivots) {
    for (size_t i = 0; i < pivots.size() && address; ++i) at<Integer>(address)[i] = static_cast<Integer>(pivots[i]);
}

[[noreturn]] void refuse_pivot(const Work& work, lapack_int pivot) {
    work.fail(CUDA_ERROR_ILLEGAL_ADDRESS, "pivot " + std::to_string(pivot) + " is no row of the matrix");
}

void check_rows(const Pivots& pivots, const Work& work) {
    for (const lapack_int pivot : pivots) {
        if (pivot < 1 || pivot > static_cast<lapack_int>(pivots.size())) refuse_pivot(work, pivot);
    }
}

// Those of a symmetric factorisation: one below 0 is of a block of two rows, which both have it.
void check_blocks(const Pivots& pivots, bool from_below, const Work& work) {
    const auto n = static_cast<int64_t>(pivots.size());
    for (int64_t k = 0; k < n;) {
        const auto row = static_cast<size_t>(from_below ? n - 1 - k : k);
        const lapack_int pivot = pivots[row];
        const bool is_pair = pivot < 0;
        if (pivot == 0 || pivot < -n || pivot > n || (is_pair && k + 1 >= n)) refuse_pivot(work, pivot);
        if (is_pair && pivots[from_below ? row - 1 : row + 1] != pivot) refuse_pivot(work, pivot);
        k += is_pair ? 2 : 1;
    }
}

// The factors of A without exchanges of rows; the first row whose pivot is 0, counted from 1.
template <typename T>
lapack_int lu_in_order(const Work& work, Own<T>& a, int64_t rows, int64_t columns) {
    lapack_int zero_at = 0;
    for (int64_t k = 0; k < std::min(rows, columns) && !work.stopped(); ++k) {
        T* const factors = a.column(k);
        if (factors[k] == T(0)) {
            if (!zero_at) zero_at = k + 1;
            continue;
        }
        for (int64_t i = k + 1; i < rows; ++i) factors[i] /= factors[k];
        for (int64_t j = k + 1; j < columns; ++j) {
            const T times = a.column(j)[k];
            for (int64_t i = k + 1; i < rows; ++i) a.column(j)[i] -= factors[i] * times;
        }
    }
    return zero_at;
}

template <typename T, typename Message>
void cholesky(const Message& m, Work& work) {
    reserve<T>(work, {area(m.n, m.n)});
    Own<T> a(m.A, m.n, m.n, m.lda);
    const lapack_int info = Lapack<T>::potrf(LAPACK_COL_MAJOR, fill_letter(m.uplo), m.n, a.data(), a.lead());
    a.store();
    put_info(m.info, 0, info);
}

template <typename T>
void solve_by_cholesky(int64_t fill, int64_t n, Own<T>& a, Own<T>& b, int64_t columns) {
    Lapack<T>::potrs(LAPACK_COL_MAJOR, fill_letter(fill), n, columns, a.data(), a.lead(), b.data(), b.lead());
    b.store();
}

template <typename T, typename Message>
void cholesky_solution(const Message& m, Work& work) {
    reserve<T>(work, {area(m.n, m.n), area(m.n, m.nrhs)});
    Own<T> a(m.A, m.n, m.n, m.lda), b(m.B, m.n, m.nrhs, m.ldb);
    solve_by_cholesky(m.uplo, m.n, a, b, m.nrhs);
    put_info(m.info, 0, 0);
}

template <typename T, typename Integer, typename Message>
void lu(const Message& m, Work& work) {
    reserve<T>(work, {area(m.m, m.n), area(smaller(m.m, m.n), 2)});
    Own<T> a(m.A, m.m, m.n, m.lda);
    Pivots pivots(static_cast<size_t>(std::min(m.m, m.n)));
    lapack_int info = 0;
    if (m.pivots) {
        info = Lapack<T>::getrf(LAPACK_COL_MAJOR, m.m, m.n, a.data(), a.lead(), pivots.data());
        store_pivots<Integer>(m.pivots, pivots);
    } else {
        info = lu_in_order(work, a, m.m, m.n);
    }
    a.store();
    put_info(m.info, 0, info);
}

template <typename T, typename Integer, typename Message>
void lu_solution(const Message& m, Work& work) {
    reserve<T>(work, {area(m.n, m.n), area(m.n, m.nrhs), area(m.n, 2)});
    Own<T> a(m.A, m.n, m.n, m.lda), b(m.B, m.n, m.nrhs, m.ldb);
    const Pivots pivots = pivots_of<Integer>(m.pivots, m.n);
    check_rows(pivots, work);
    Lapack<T>::getrs(LAPACK_COL_MAJOR, op_letter<T>(m.trans), m.n, m.nrhs, a.data(), a.lead(), pivots.data(), b.data(),
                     b.lead());
    b.store();
    put_info(m.info, 0, 0);
}

template <typename T, typename Message>
void qr(const Message& m, Work& work) {
    reserve<T>(work, {area(m.m, m.n), area(smaller(m.m, m.n), 1), blocks_of(m.n)});
    Own<T> a(m.A, m.m, m.n, m.lda), tau = own_vector<T>(m.tau, std::min(m.m, m.n));
    const lapack_int info = Lapack<T>::geqrf(LAPACK_COL_MAJOR, m.m, m.n, a.data(), a.lead(), tau.data());
    a.store(), tau.store();
    put_info(m.info, 0, info);
}

template <typename T, typename Message>
void reserve_for_eigenvalues(const Message& m, Work& work) {
    reserve<T>(work, {area(m.n, m.n), area(m.n, 1), conquered(m.n)});
}

// The i-th of matrices without gaps between them.
template <typename T, typename Message>
void eigenvalues(const Message& m, int64_t i) {
    Own<T> a(m.A ? at<T>(m.A) + i * m.lda * m.n : nullptr, m.n, m.n, m.lda);
    Own<Real<T>> w(m.W ? at<Real<T>>(m.W) + i * m.n : nullptr, m.n, 1, m.n);
    const lapack_int info = !a.is_finite(m.uplo) ? no_values(m.n, a, w)
                                           : Lapack<T>::syevd(LAPACK_COL_MAJOR, job_letter(m.jobz), fill_letter(m.uplo),
                                                              m.n, a.data(), a.lead(), w.data());
    a.store(), w.store();
    put_info(m.info, i, info);
}

template <typename T, typename Message>
void singular_values(const Message& m, Work& work) {
    const int64_t few = std::min(m.m, m.n);
    reserve<T>(work,
               {product(2, area(m.m, m.n)), area(m.m, m.jobu == 'A' ? m.m : few), product(2, area(few, few)),
                area(m.jobvt == 'A' ? m.n : few, m.n), blocks_of(m.m), blocks_of(m.n), area(few, 8)});
    const auto has_own = [](int64_t letter) { return letter == 'A' || letter == 'S'; };
    Own<T> a(m.A, m.m, m.n, m.lda);
    Own<T> u(m.U, has_own(m.jobu) ? m.m : 0, m.jobu == 'A' ? m.m : few, m.ldu);
    Own<T> vt(m.VT, !has_own(m.jobvt) ? 0 : m.jobvt == 'A' ? m.n : few, m.n, m.ldvt);
    Own<Real<T>> s = own_vector<Real<T>>(m.S, few);
    std::vector<Real<T>> rest(static_cast<size_t>(std::max<int64_t>(1, few)));
    const lapack_int info =
        !a.is_finite() ? no_values(few, a, s, u, vt)
                       : Lapack<T>::gesvd(LAPACK_COL_MAJOR, static_cast<char>(m.jobu), static_cast<char>(m.jobvt), m.m, m.n, a.data(),
                         a.lead(), s.data(), u.data(), u.lead(), vt.data(), vt.lead(), rest.data());
    if (m.jobu == 'O' || m.jobvt == 'O') a.store();
    s.store(), u.store(), vt.store();
    put_info(m.info, 0, info);
}

template <typename T, typename Message>
void reserve_for_singular_vectors(const Message& m, int64_t economical, Work& work) {
    const int64_t few = std::min(m.m, m.n), left = economical ? few : m.m, right = economical ? few : m.n;
    reserve<T>(work, {product(2, area(m.m, m.n)), m.jobz ? area(m.m, left) : 0,
                      m.jobz ? product(2, area(m.n, right)) : 0, product(6, area(few, few)), blocks_of(m.m),
                      blocks_of(m.n), area(few, 16)});
}

// A = U S V^H, where cuSOLVER gives V and LAPACK its adjoint.
template <typename T, typename Message>
void singular_vectors(const Message& m, int64_t economical, int64_t i) {
    const int64_t few = std::min(m.m, m.n), left = economical ? few : m.m, right = economical ? few : m.n;
    Own<T> a(m.A ? at<T>(m.A) + i * m.lda * m.n : nullptr, m.m, m.n, m.lda);
    Own<T> u(m.U ? at<T>(m.U) + i * m.ldu * m.m : nullptr, m.jobz ? m.m : 0, left, m.ldu);
    Own<T> v(m.V ? at<T>(m.V) + i * m.ldv * m.n : nullptr, m.jobz ? m.n : 0, right, m.ldv);
    Own<T> adjoint(nullptr, m.jobz ? right : 0, m.n, right);
    Own<Real<T>> s(m.S ? at<Real<T>>(m.S) + i * few : nullptr, few, 1, few);
    const char job = !m.jobz ? 'N' : economical ? 'S' : 'A';
    const lapack_int info = !a.is_finite() ? no_values(few, s, u, adjoint)
                                           : Lapack<T>::gesdd(LAPACK_COL_MAJOR, job, m.m, m.n, a.data(), a.lead(), s.data(),
                                                              u.data(), u.lead(), adjoint.data(), adjoint.lead());
    for (int64_t j = 0; j < right && m.jobz; ++j) {
        for (int64_t row = 0; row < m.n; ++row) v.column(j)[row] = conjugate(adjoint.column(row)[j]);
    }
    s.store(), u.store(), v.store();
    put_info(m.info, i, info);
}

}  // namespace

CUresult run(potrf& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) { cholesky<T>(m, work); });
}
CUresult run(xpotrf& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) { cholesky<T>(m, work); });
}
CUresult run(potrs& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) { cholesky_solution<T>(m, work); });
}
CUresult run(xpotrs& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) { cholesky_solution<T>(m, work); });
}

CUresult run(potri& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve<T>(work, {area(m.n, m.n)});
        Own<T> a(m.A, m.n, m.n, m.lda);
        const lapack_int info = Lapack<T>::potri(LAPACK_COL_MAJOR, fill_letter(m.uplo), m.n, a.data(), a.lead());
        a.store();
        put_info(m.info, 0, info);
    });
}

CUresult run(potrf_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve<T>(work, {area(m.n, m.n)});
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
            Own<T> a(nth<T>(m.A, i), m.n, m.n, m.lda);
            const lapack_int info = Lapack<T>::potrf(LAPACK_COL_MAJOR, fill_letter(m.uplo), m.n, a.data(), a.lead());
            a.store();
            put_info(m.info, i, info);
        }
    });
}

CUresult run(potrs_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve<T>(work, {area(m.n, m.n), area(m.n, m.nrhs)});
        for (int64_t i = 0; i < m.batch && m.A && m.B && !work.stopped(); ++i) {
            Own<T> a(nth<T>(m.A, i), m.n, m.n, m.lda), b(nth<T>(m.B, i), m.n, m.nrhs, m.ldb);
            solve_by_cholesky(m.uplo, m.n, a, b, m.nrhs);
        }
        put_info(m.info, 0, 0);
    });
}

CUresult run(getrf& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) { lu<T, int32_t>(m, work); });
}
CUresult run(xgetrf& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) { lu<T, int64_t>(m, work); });
}
CUresult run(getrs& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) { lu_solution<T, int32_t>(m, work); });
}
CUresult run(xgetrs& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) { lu_solution<T, int64_t>(m, work); });
}

CUresult run(geqrf& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) { qr<T>(m, work); });
}
CUresult run(xgeqrf& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) { qr<T>(m, work); });
}

CUresult run(orgqr& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve<T>(work, {area(m.m, m.n), area(m.k, 1), blocks_of(m.n)});
        Own<T> a(m.A, m.m, m.n, m.lda), tau = own_vector<T>(m.tau, m.k);
        const lapack_int info = Lapack<T>::orgqr(LAPACK_COL_MAJOR, m.m, m.n, m.k, a.data(), a.lead(), tau.data());
        a.store();
        put_info(m.info, 0, info);
    });
}

CUresult run(ormqr& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve<T>(work, {area(m.side ? m.n : m.m, m.k), area(m.k, 1), area(m.m, m.n),
                          blocks_of(m.side ? m.m : m.n)});
        Own<T> a(m.A, m.side ? m.n : m.m, m.k, m.lda), tau = own_vector<T>(m.tau, m.k), c(m.C, m.m, m.n, m.ldc);
        const lapack_int info =
            Lapack<T>::ormqr(LAPACK_COL_MAJOR, m.side ? 'R' : 'L', op_letter<T>(m.trans), m.m, m.n, m.k, a.data(),
                             a.lead(), tau.data(), c.data(), c.lead());
        c.store();
        put_info(m.info, 0, info);
    });
}

CUresult run(sytrf& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve<T>(work, {area(m.n, m.n), area(m.n, 2), blocks_of(m.n)});
        Own<T> a(m.A, m.n, m.n, m.lda);
        Pivots pivots(static_cast<size_t>(m.n));
        const lapack_int info =
            Lapack<T>::sytrf(LAPACK_COL_MAJOR, fill_letter(m.uplo), m.n, a.data(), a.lead(), pivots.data());
        a.store();
        store_pivots<int32_t>(m.pivots, pivots);
        put_info(m.info, 0, info);
    });
}

CUresult run(xsytrs& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) {
        reserve<T>(work, {area(m.n, m.n), area(m.n, m.nrhs), area(m.n, 2)});
        Own<T> a(m.A, m.n, m.n, m.lda), b(m.B, m.n, m.nrhs, m.ldb);
        const Pivots pivots = pivots_of<int64_t>(m.pivots, m.n);
        check_blocks(pivots, m.uplo == 1, work);
        Lapack<T>::sytrs(LAPACK_COL_MAJOR, fill_letter(m.uplo), m.n, m.nrhs, a.data(), a.lead(), pivots.data(), b.data(),
                         b.lead());
        b.store();
        put_info(m.info, 0, 0);
    });
}

CUresult run(syevd& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve_for_eigenvalues<T>(m, work);
        eigenvalues<T>(m, 0);
    });
}
// By rotations on a GPU; their settings say how exact results are to be, and these are exact.
CUresult run(syevj& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve_for_eigenvalues<T>(m, work);
        eigenvalues<T>(m, 0);
    });
}
CUresult run(syevj_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve_for_eigenvalues<T>(m, work);
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) eigenvalues<T>(m, i);
    });
}
CUresult run(xsyevd& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) {
        reserve_for_eigenvalues<T>(m, work);
        eigenvalues<T>(m, 0);
    });
}
CUresult run(xsyev_batched& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) {
        reserve_for_eigenvalues<T>(m, work);
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) eigenvalues<T>(m, i);
    });
}

CUresult run(sygvd& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve<T>(work, {product(2, area(m.n, m.n)), area(m.n, 1), conquered(m.n)});
        Own<T> a(m.A, m.n, m.n, m.lda), b(m.B, m.n, m.n, m.ldb);
        Own<Real<T>> w = own_vector<Real<T>>(m.W, m.n);
        const lapack_int info =
            !a.is_finite(m.uplo) || !b.is_finite(m.uplo)
                ? no_values(m.n, a, b, w)
                : Lapack<T>::sygvd(LAPACK_COL_MAJOR, m.kind, job_letter(m.jobz), fill_letter(m.uplo), m.n, a.data(),
                                   a.lead(), b.data(), b.lead(), w.data());
        a.store(), b.store(), w.store();
        put_info(m.info, 0, info);
    });
}

CUresult run(gesvd& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) { singular_values<T>(m, work); });
}
CUresult run(xgesvd& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) { singular_values<T>(m, work); });
}
CUresult run(gesvdj& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve_for_singular_vectors<T>(m, m.economical, work);
        singular_vectors<T>(m, m.economical, 0);
    });
}
CUresult run(gesvdj_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve_for_singular_vectors<T>(m, 0, work);
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) singular_vectors<T>(m, 0, i);
    });
}

CUresult run_function(uint16_t function, void* arguments, Work& work) {
    static std::once_flag once;
    // A NaN gives NaNs, and no error.
    std::call_once(once, [] { scipy_LAPACKE_set_nancheck64_(0); });
    switch (function) {
#include "cusolver_cpu.inc"
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

}  // namespace maths::cusolver
