// cuSOLVER's functions, by LAPACK. What lies in the slice others may write meanwhile, and LAPACK reads again
// what it has written: so it works on copies, which are as large as the operands, and what it wants beside
// them is of their order too.
#include "cusolver_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <new>

#include "blas.h"
#include "lapack_room.h"

namespace maths::cusolver {
namespace {

template <typename T>
struct Lapack;

#define GK_SOLVER(t, name) static constexpr auto name = scipy_LAPACKE_##t##name##64_;
#define GK_FOR_SOLVER(X, t) X(t, potrf) X(t, potri) X(t, potrs) X(t, getrf) X(t, getrs) X(t, sytrs)
// Those that work in memory that they are given.
#define GK_WORKER(t, name) static constexpr auto name = scipy_LAPACKE_##t##name##_work64_;
#define GK_WORKER_AS(t, name, as) static constexpr auto as = scipy_LAPACKE_##t##name##_work64_;
#define GK_FOR_WORKER(X, t) X(t, geqrf) X(t, sytrf) X(t, gesvd) X(t, gesdd) X(t, geev)

template <>
struct Lapack<float> {
    GK_FOR_SOLVER(GK_SOLVER, s)
    GK_FOR_WORKER(GK_WORKER, s)
    GK_WORKER(s, orgqr) GK_WORKER(s, ormqr) GK_WORKER(s, sytrd) GK_WORKER(s, syevd) GK_WORKER(s, sygvd)
};
template <>
struct Lapack<double> {
    GK_FOR_SOLVER(GK_SOLVER, d)
    GK_FOR_WORKER(GK_WORKER, d)
    GK_WORKER(d, orgqr) GK_WORKER(d, ormqr) GK_WORKER(d, sytrd) GK_WORKER(d, syevd) GK_WORKER(d, sygvd)
};
template <>
struct Lapack<std::complex<float>> {
    GK_FOR_SOLVER(GK_SOLVER, c)
    GK_FOR_WORKER(GK_WORKER, c)
    GK_WORKER_AS(c, ungqr, orgqr)
    GK_WORKER_AS(c, hetrd, sytrd)
    GK_WORKER_AS(c, unmqr, ormqr) GK_WORKER_AS(c, heevd, syevd) GK_WORKER_AS(c, hegvd, sygvd)
};
template <>
struct Lapack<std::complex<double>> {
    GK_FOR_SOLVER(GK_SOLVER, z)
    GK_FOR_WORKER(GK_WORKER, z)
    GK_WORKER_AS(z, ungqr, orgqr)
    GK_WORKER_AS(z, hetrd, sytrd)
    GK_WORKER_AS(z, unmqr, ormqr) GK_WORKER_AS(z, heevd, syevd) GK_WORKER_AS(z, hegvd, sygvd)
};

// A matrix of the slice, copied without gaps. Without an address it is one of zeros that nothing is written
// to.
template <typename T>
class Own {
  public:
    Own(T* place, int64_t rows, int64_t columns, int64_t lead)
        : place_(place),
          rows_(rows),
          columns_(columns),
          apart_(lead),
          values_(static_cast<size_t>(rows * columns)) {
        for (int64_t j = 0; j < columns_ && place_; ++j) std::copy_n(place_ + j * apart_, rows_, column(j));
    }
    Own(uint64_t address, int64_t rows, int64_t columns, int64_t lead)
        : Own(at<T>(address), rows, columns, lead) {}

    T* data() { return values_.data(); }
    lapack_int lead() const { return std::max<int64_t>(1, rows_); }
    T* column(int64_t j) { return values_.data() + j * rows_; }
    bool is_finite() { return std::all_of(values_.begin(), values_.end(), has_finite_parts); }
    // Of a square one, the triangle that `fill` names.
    bool is_finite(int64_t fill) {
        for (int64_t j = 0; j < columns_; ++j) {
            const bool is_lower = fill == 0;
            if (!std::all_of(column(j) + (is_lower ? j : 0), column(j) + (is_lower ? rows_ : j + 1),
                             has_finite_parts)) {
                return false;
            }
        }
        return true;
    }
    void fill_with_nan() {
        std::fill(values_.begin(), values_.end(), std::numeric_limits<Real<T>>::quiet_NaN());
    }
    void store() { store(place_, columns_, apart_); }
    // The first columns, elsewhere.
    void store(T* to, int64_t columns, int64_t lead) {
        for (int64_t j = 0; j < columns && to; ++j) std::copy_n(column(j), rows_, to + j * lead);
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

// What copies of matrices take, and what LAPACK works in beside them.
template <typename T>
void reserve(Work& work, std::initializer_list<uint64_t> numbers, const LapackRoom& room = {}) {
    uint64_t all = 0;
    for (const uint64_t each : numbers) all = sum(all, each);
    work.reserve(sum(product(all, sizeof(T)), LapackMemory<T>::bytes_of(room)));
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

// Iterations to eigenvalues and singular values do not converge on what is no number, and LAPACK says so on
// standard output: there are none, as where an iteration has not converged.
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
    for (size_t i = 0; i < pivots.size() && address; ++i)
        at<Integer>(address)[i] = static_cast<Integer>(pivots[i]);
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
    Lapack<T>::getrs(LAPACK_COL_MAJOR, op_letter<T>(m.trans), m.n, m.nrhs, a.data(), a.lead(), pivots.data(),
                     b.data(), b.lead());
    b.store();
    put_info(m.info, 0, 0);
}

template <typename T, typename Message>
void qr(const Message& m, Work& work) {
    const LapackRoom room = room_of_reflectors(m.n, smaller(m.m, m.n));
    reserve<T>(work, {area(m.m, m.n), area(smaller(m.m, m.n), 1)}, room);
    LapackMemory<T> memory(room);
    Own<T> a(m.A, m.m, m.n, m.lda), tau = own_vector<T>(m.tau, std::min(m.m, m.n));
    const lapack_int info = Lapack<T>::geqrf(LAPACK_COL_MAJOR, m.m, m.n, a.data(), a.lead(), tau.data(),
                                             memory.numbers(), memory.count());
    a.store(), tau.store();
    put_info(m.info, 0, info);
}

// Of real matrices LAPACK has no list of reals.
template <typename T, typename... Arguments>
lapack_int conquer(auto function, LapackMemory<T>& memory, Arguments... arguments) {
    if constexpr (kIsComplex<T>) {
        return function(arguments..., memory.numbers(), memory.count(), memory.reals(), memory.real_count(),
                        memory.integers(), memory.integer_count());
    } else {
        return function(arguments..., memory.numbers(), memory.count(), memory.integers(),
                        memory.integer_count());
    }
}

template <typename T, typename Message>
LapackMemory<T> memory_for_eigenvalues(const Message& m, Work& work) {
    const LapackRoom room = room_of_eigenvalues(m.n, m.jobz != 0, kIsComplex<T>);
    reserve<T>(work, {area(m.n, m.n), area(m.n, 1)}, room);
    return LapackMemory<T>(room);
}

// The i-th of matrices without gaps between them. `rotates`: whether it is a function that says by n + 1 that
// it did not converge, as those by rotations do.
template <typename T, typename Message>
void eigenvalues(const Message& m, int64_t i, LapackMemory<T>& memory, bool rotates = false) {
    Own<T> a(m.A ? at<T>(m.A) + i * m.lda * m.n : nullptr, m.n, m.n, m.lda);
    Own<Real<T>> w(m.W ? at<Real<T>>(m.W) + i * m.n : nullptr, m.n, 1, m.n);
    const lapack_int info = !a.is_finite(m.uplo)
                                ? no_values(m.n, a, w)
                                : conquer<T>(Lapack<T>::syevd, memory, LAPACK_COL_MAJOR, job_letter(m.jobz),
                                             fill_letter(m.uplo), m.n, a.data(), a.lead(), w.data());
    a.store(), w.store();
    put_info(m.info, i, rotates && info > 0 ? m.n + 1 : info);
}

template <typename T, typename Message>
void singular_values(const Message& m, Work& work) {
    const int64_t few = std::min(m.m, m.n);
    const LapackRoom room = room_of_singular_values(m.m, m.n, true, false, kIsComplex<T>);
    const uint64_t left = area(m.m, m.jobu == 'A' ? m.m : few), right = area(m.jobvt == 'A' ? m.n : few, m.n);
    reserve<T>(work, {area(m.m, m.n), left, right, area(few, 1)}, room);
    LapackMemory<T> memory(room);
    const auto has_own = [](int64_t letter) { return letter == 'A' || letter == 'S'; };
    Own<T> a(m.A, m.m, m.n, m.lda);
    Own<T> u(m.U, has_own(m.jobu) ? m.m : 0, m.jobu == 'A' ? m.m : few, m.ldu);
    Own<T> vt(m.VT, !has_own(m.jobvt) ? 0 : m.jobvt == 'A' ? m.n : few, m.n, m.ldvt);
    Own<Real<T>> s = own_vector<Real<T>>(m.S, few);
    const auto values = [&](auto... reals) {
        return Lapack<T>::gesvd(LAPACK_COL_MAJOR, static_cast<char>(m.jobu), static_cast<char>(m.jobvt), m.m,
                                m.n, a.data(), a.lead(), s.data(), u.data(), u.lead(), vt.data(), vt.lead(),
                                memory.numbers(), memory.count(), reals...);
    };
    lapack_int info;
    if (!a.is_finite()) {
        info = no_values(few, a, s, u, vt);
    } else if constexpr (kIsComplex<T>) {
        info = values(memory.reals());
    } else {
        info = values();
    }
    if (m.jobu == 'O' || m.jobvt == 'O') a.store();
    s.store(), u.store(), vt.store();
    put_info(m.info, 0, info);
}

// Vectors as LAPACK's letters say: none (N), as many as there are values (S), or all (A).
char vectors_letter(int64_t job, int64_t economical) {
    return job == 0 ? 'N' : economical ? 'S' : 'A';
}

template <typename T>
LapackMemory<T> memory_for_singular_vectors(char job, int64_t m, int64_t n, Work& work) {
    const int64_t few = std::min(m, n), left = job == 'A' ? m : few, right = job == 'A' ? n : few;
    const LapackRoom room = room_of_singular_values(m, n, job != 'N', true, kIsComplex<T>);
    const uint64_t vectors = job == 'N' ? 0 : sum(area(m, left), product(2, area(n, right)));
    reserve<T>(work, {area(m, n), vectors, area(few, 1)}, room);
    return LapackMemory<T>(room);
}

// Where a matrix and what it is decomposed into lie.
template <typename T>
struct Decomposition {
    T* a;
    Real<T>* s;
    T *u, *v;
    int64_t lda, ldu, ldv;
};
// The i-th of a batch, whose parts are so far apart.
template <typename T, typename Message>
Decomposition<T> nth_of(const Message& m, int64_t i, int64_t a, int64_t s, int64_t u, int64_t v) {
    const auto place = [i]<typename Number>(uint64_t address, int64_t apart, Number) {
        return address ? at<Number>(address) + i * apart : nullptr;
    };
    return {place(m.A, a, T{}),
            place(m.S, s, Real<T>{}),
            place(m.U, u, T{}),
            place(m.V, v, T{}),
            m.lda,
            m.ldu,
            m.ldv};
}

// A = U S V^H, where cuSOLVER gives V and LAPACK its adjoint: the first `rank` values, and their vectors or
// all.
template <typename T>
lapack_int singular_vectors(const Decomposition<T>& to, char job, int64_t m, int64_t n, int64_t rank,
                            LapackMemory<T>& memory) {
    const bool any = job != 'N', all = job == 'A';
    const int64_t few = std::min(m, n), left = all ? m : few, right = all ? n : few;
    Own<T> a(to.a, m, n, to.lda), u(nullptr, any ? m : 0, left, m);
    Own<T> v(nullptr, any ? n : 0, right, n), adjoint(nullptr, any ? right : 0, n, right);
    Own<Real<T>> s(nullptr, 1, few, 1);
    const auto decompose = [&](auto... lists) {
        return Lapack<T>::gesdd(LAPACK_COL_MAJOR, job, m, n, a.data(), a.lead(), s.data(), u.data(), u.lead(),
                                adjoint.data(), adjoint.lead(), memory.numbers(), memory.count(), lists...);
    };
    lapack_int info;
    if (!a.is_finite()) {
        info = no_values(few, s, u, adjoint);
    } else if constexpr (kIsComplex<T>) {
        info = decompose(memory.reals(), memory.integers());
    } else {
        info = decompose(memory.integers());
    }
    for (int64_t j = 0; j < right && any; ++j) {
        for (int64_t row = 0; row < n; ++row) v.column(j)[row] = conjugate(adjoint.column(row)[j]);
    }
    if (info > 0) info = static_cast<lapack_int>(few + 1);  // how iterations by rotations say it
    s.store(to.s, rank, 1), u.store(to.u, all ? m : rank, to.ldu), v.store(to.v, all ? n : rank, to.ldv);
    return info;
}

// Complex numbers, or real parts and then imaginary ones. A complex matrix has no `imaginary`.
template <typename T>
void store_eigenvalues(const xgeev& m, const std::vector<T>& w, const std::vector<T>& imaginary) {
    const bool as_complex = is_complex(m.Wtype);
    for (size_t i = 0; i < w.size(); ++i) {
        if (imaginary.empty()) {
            at<T>(m.W)[i] = w[i];
        } else if (as_complex) {
            at<std::complex<Real<T>>>(m.W)[i] = {std::real(w[i]), std::real(imaginary[i])};
        } else {
            at<T>(m.W)[i] = w[i], at<T>(m.W)[w.size() + i] = imaginary[i];
        }
    }
}

// Of a matrix that need not be symmetric. Those of a real one are real numbers, or pairs of complex ones that
// are conjugates of each other, whose vectors' real and imaginary parts are in two columns.
template <typename T>
void any_eigenvalues(const xgeev& m, Work& work) {
    const bool vectors = m.jobvr != 0;
    const LapackRoom room = room_of_any_eigenvalues(m.n, kIsComplex<T>);
    reserve<T>(work, {area(m.n, m.n), vectors ? area(m.n, m.n) : 0, area(m.n, 4)}, room);
    LapackMemory<T> memory(room);
    Own<T> a(m.A, m.n, m.n, m.lda), v(vectors ? m.VR : 0, vectors ? m.n : 0, m.n, m.ldvr);
    std::vector<T> w(static_cast<size_t>(m.n)), imaginary(static_cast<size_t>(kIsComplex<T> ? 0 : m.n));
    const auto decompose = [&](auto... reals) {
        return [&, reals...](auto... where) {
            return Lapack<T>::geev(LAPACK_COL_MAJOR, 'N', job_letter(m.jobvr), m.n, a.data(), a.lead(),
                                   where..., nullptr, 1, v.data(), v.lead(), memory.numbers(), memory.count(),
                                   reals...);
        };
    };
    lapack_int info = 0;
    if (!a.is_finite()) {
        constexpr Real<T> kNone = std::numeric_limits<Real<T>>::quiet_NaN();
        std::fill(w.begin(), w.end(), kNone), std::fill(imaginary.begin(), imaginary.end(), kNone);
        info = no_values(m.n, a, v);
    } else if constexpr (kIsComplex<T>) {
        info = decompose(memory.reals())(w.data());
    } else {
        info = decompose()(w.data(), imaginary.data());
    }
    a.store(), v.store();
    if (m.W) store_eigenvalues(m, w, imaginary);
    put_info(m.info, 0, info);
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
        const lapack_int info =
            Lapack<T>::potri(LAPACK_COL_MAJOR, fill_letter(m.uplo), m.n, a.data(), a.lead());
        a.store();
        put_info(m.info, 0, info);
    });
}

CUresult run(potrf_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve<T>(work, {area(m.n, m.n)});
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
            Own<T> a(nth<T>(m.A, i), m.n, m.n, m.lda);
            const lapack_int info =
                Lapack<T>::potrf(LAPACK_COL_MAJOR, fill_letter(m.uplo), m.n, a.data(), a.lead());
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
        const LapackRoom room = room_of_reflectors(m.n, m.k);
        reserve<T>(work, {area(m.m, m.n), area(m.k, 1)}, room);
        LapackMemory<T> memory(room);
        Own<T> a(m.A, m.m, m.n, m.lda), tau = own_vector<T>(m.tau, m.k);
        const lapack_int info = Lapack<T>::orgqr(LAPACK_COL_MAJOR, m.m, m.n, m.k, a.data(), a.lead(),
                                                 tau.data(), memory.numbers(), memory.count());
        a.store();
        put_info(m.info, 0, info);
    });
}

CUresult run(ormqr& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        const LapackRoom room = room_of_reflectors(m.side ? m.m : m.n, m.k);
        reserve<T>(work, {area(m.side ? m.n : m.m, m.k), area(m.k, 1), area(m.m, m.n)}, room);
        LapackMemory<T> memory(room);
        Own<T> a(m.A, m.side ? m.n : m.m, m.k, m.lda), tau = own_vector<T>(m.tau, m.k),
                                                       c(m.C, m.m, m.n, m.ldc);
        const lapack_int info = Lapack<T>::ormqr(LAPACK_COL_MAJOR, m.side ? 'R' : 'L', op_letter<T>(m.trans),
                                                 m.m, m.n, m.k, a.data(), a.lead(), tau.data(), c.data(),
                                                 c.lead(), memory.numbers(), memory.count());
        c.store();
        put_info(m.info, 0, info);
    });
}

CUresult run(sytrf& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        const LapackRoom room = room_of_reflectors(m.n, m.n);
        reserve<T>(work, {area(m.n, m.n), area(m.n, 2)}, room);
        LapackMemory<T> memory(room);
        Own<T> a(m.A, m.n, m.n, m.lda);
        Pivots pivots(static_cast<size_t>(m.n));
        const lapack_int info = Lapack<T>::sytrf(LAPACK_COL_MAJOR, fill_letter(m.uplo), m.n, a.data(),
                                                 a.lead(), pivots.data(), memory.numbers(), memory.count());
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
        Lapack<T>::sytrs(LAPACK_COL_MAJOR, fill_letter(m.uplo), m.n, m.nrhs, a.data(), a.lead(),
                         pivots.data(), b.data(), b.lead());
        b.store();
        put_info(m.info, 0, 0);
    });
}

CUresult run(sytrd& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        const LapackRoom room = room_of_reflectors(m.n, m.n);
        reserve<T>(work, {area(m.n, m.n), area(m.n, 3)}, room);
        LapackMemory<T> memory(room);
        Own<T> a(m.A, m.n, m.n, m.lda), tau = own_vector<T>(m.tau, less(m.n));
        Own<Real<T>> d = own_vector<Real<T>>(m.D, m.n), e = own_vector<Real<T>>(m.E, less(m.n));
        const lapack_int info =
            Lapack<T>::sytrd(LAPACK_COL_MAJOR, fill_letter(m.uplo), m.n, a.data(), a.lead(), d.data(),
                             e.data(), tau.data(), memory.numbers(), memory.count());
        a.store(), d.store(), e.store(), tau.store();
        put_info(m.info, 0, info);
    });
}

CUresult run(syevd& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        LapackMemory<T> memory = memory_for_eigenvalues<T>(m, work);
        eigenvalues<T>(m, 0, memory);
    });
}
// By rotations on a GPU; their settings say how exact results are to be, and these are exact.
CUresult run(syevj& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        LapackMemory<T> memory = memory_for_eigenvalues<T>(m, work);
        eigenvalues<T>(m, 0, memory, true);
    });
}
CUresult run(syevj_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        LapackMemory<T> memory = memory_for_eigenvalues<T>(m, work);
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) eigenvalues<T>(m, i, memory, true);
    });
}
CUresult run(xsyevd& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) {
        LapackMemory<T> memory = memory_for_eigenvalues<T>(m, work);
        eigenvalues<T>(m, 0, memory);
    });
}
CUresult run(xsyev_batched& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) {
        LapackMemory<T> memory = memory_for_eigenvalues<T>(m, work);
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) eigenvalues<T>(m, i, memory);
    });
}

CUresult run(sygvd& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        const LapackRoom room = room_of_eigenvalues(m.n, m.jobz != 0, kIsComplex<T>);
        reserve<T>(work, {product(2, area(m.n, m.n)), area(m.n, 1)}, room);
        LapackMemory<T> memory(room);
        Own<T> a(m.A, m.n, m.n, m.lda), b(m.B, m.n, m.n, m.ldb);
        Own<Real<T>> w = own_vector<Real<T>>(m.W, m.n);
        const lapack_int info =
            !a.is_finite(m.uplo) || !b.is_finite(m.uplo)
                ? no_values(m.n, a, b, w)
                : conquer<T>(Lapack<T>::sygvd, memory, LAPACK_COL_MAJOR, m.kind, job_letter(m.jobz),
                             fill_letter(m.uplo), m.n, a.data(), a.lead(), b.data(), b.lead(), w.data());
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
        const char job = vectors_letter(m.jobz, m.economical);
        LapackMemory<T> memory = memory_for_singular_vectors<T>(job, m.m, m.n, work);
        const Decomposition<T> to = nth_of<T>(m, 0, 0, 0, 0, 0);
        put_info(m.info, 0, singular_vectors(to, job, m.m, m.n, std::min(m.m, m.n), memory));
    });
}
// By polar decomposition on a GPU, which changes values that are nearly 0: `error` says by how much.
CUresult run(xgesvdp& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) {
        const char job = vectors_letter(m.jobz, m.economical);
        LapackMemory<T> memory = memory_for_singular_vectors<T>(job, m.m, m.n, work);
        const Decomposition<T> to = nth_of<T>(m, 0, 0, 0, 0, 0);
        put_info(m.info, 0, singular_vectors(to, job, m.m, m.n, std::min(m.m, m.n), memory));
        *at<double>(m.error) = 0;
    });
}
CUresult run(gesvdj_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        const char job = vectors_letter(m.jobz, 0);
        const int64_t few = std::min(m.m, m.n);
        LapackMemory<T> memory = memory_for_singular_vectors<T>(job, m.m, m.n, work);
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
            const Decomposition<T> to = nth_of<T>(m, i, m.lda * m.n, few, m.ldu * m.m, m.ldv * m.n);
            put_info(m.info, i, singular_vectors(to, job, m.m, m.n, few, memory));
        }
    });
}
// Approximately on a GPU, by eigenvalues of A^H A; these are exact.
CUresult run(gesvda_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        const char job = vectors_letter(m.jobz, 1);
        LapackMemory<T> memory = memory_for_singular_vectors<T>(job, m.m, m.n, work);
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
            const Decomposition<T> to = nth_of<T>(m, i, m.strideA, m.strideS, m.strideU, m.strideV);
            put_info(m.info, i, singular_vectors(to, job, m.m, m.n, m.rank, memory));
        }
    });
}
CUresult run(xgeev& m, Type, Work& work) {
    return of_type(as_type(m.Atype), [&]<typename T>(T) { any_eigenvalues<T>(m, work); });
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
