// cuBLAS' functions of matrices, but for products (product.cc). OpenBLAS looks neither at C when beta is 0 nor at A
// and B when alpha is.
#include <algorithm>

#include "blas.h"
#include "cublas_cpu.h"

namespace maths::cublas {
namespace {

template <typename T>
void copy_matrix(const T* from, int64_t from_lead, T* to, int64_t to_lead, int64_t rows, int64_t columns) {
    for (int64_t j = 0; j < columns; ++j) std::copy_n(from + j * from_lead, rows, to + j * to_lead);
}

template <typename T>
void clear_matrix(T* to, int64_t lead, int64_t rows, int64_t columns) {
    for (int64_t j = 0; j < columns; ++j) std::fill_n(to + j * lead, rows, T(0));
}

template <typename T, typename Message>
void solve(const Message& m, T alpha, const T* a, T* b) {
    if (alpha == T(0)) return clear_matrix(b, m.ldb, m.m, m.n);
    Blas<T>::trsm(kColumns, side_of(m.side), fill_of(m.uplo), op_of(m.trans), diag_of(m.diag), m.m, m.n, by(alpha),
                  a, m.lda, b, m.ldb);
}

template <typename T, typename Beta, typename Message>
void add_triangle(const Message& m, bool conjugated, Beta beta) {
    const T alpha = value<T>(m.alpha), scale(beta);
    const CBLAS_TRANSPOSE other = conjugated ? CblasConjTrans : CblasTrans;
    const bool plain = m.trans == 0;
    Blas<T>::gemmt(kColumns, fill_of(m.uplo), plain ? CblasNoTrans : other, plain ? other : CblasNoTrans, m.n,
                   alpha == T(0) ? 0 : m.k, by(alpha), at<T>(m.A), m.lda, at<T>(m.B), m.ldb, by(scale), at<T>(m.C),
                   m.ldc);
}

// op(X) at (row, column).
template <typename T>
T element_of(const T* x, int64_t op, int64_t lead, int64_t row, int64_t column) {
    const T value = op == 0 ? x[column * lead + row] : x[row * lead + column];
    return op == 2 ? conjugate(value) : value;
}

}  // namespace

CUresult run(symm& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        if (m.m == 0 || m.n == 0) return;
        Blas<T>::symm(kColumns, side_of(m.side), fill_of(m.uplo), m.m, m.n, by(value<T>(m.alpha)), at<T>(m.A),
                      m.lda, at<T>(m.B), m.ldb, by(value<T>(m.beta)), at<T>(m.C), m.ldc);
    });
}

CUresult run(hemm& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        if (m.m == 0 || m.n == 0) return;
        Blas<T>::hemm(kColumns, side_of(m.side), fill_of(m.uplo), m.m, m.n, by(value<T>(m.alpha)), at<T>(m.A),
                      m.lda, at<T>(m.B), m.ldb, by(value<T>(m.beta)), at<T>(m.C), m.ldc);
    });
}

CUresult run(syrk& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha);
        if (m.n == 0) return;
        Blas<T>::syrk(kColumns, fill_of(m.uplo), m.trans ? CblasTrans : CblasNoTrans, m.n,
                      alpha == T(0) ? 0 : m.k, by(alpha), at<T>(m.A), m.lda, by(value<T>(m.beta)), at<T>(m.C),
                      m.ldc);
    });
}

CUresult run(herk& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        const auto alpha = value<Real<T>>(m.alpha);
        if (m.n == 0) return;
        Blas<T>::herk(kColumns, fill_of(m.uplo), m.trans ? CblasConjTrans : CblasNoTrans, m.n,
                      alpha == 0 ? 0 : m.k, alpha, at<T>(m.A), m.lda, value<Real<T>>(m.beta), at<T>(m.C), m.ldc);
    });
}

CUresult run(syr2k& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha);
        if (m.n == 0) return;
        Blas<T>::syr2k(kColumns, fill_of(m.uplo), m.trans ? CblasTrans : CblasNoTrans, m.n,
                       alpha == T(0) ? 0 : m.k, by(alpha), at<T>(m.A), m.lda, at<T>(m.B), m.ldb,
                       by(value<T>(m.beta)), at<T>(m.C), m.ldc);
    });
}

CUresult run(her2k& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha);
        if (m.n == 0) return;
        Blas<T>::her2k(kColumns, fill_of(m.uplo), m.trans ? CblasConjTrans : CblasNoTrans, m.n,
                       alpha == T(0) ? 0 : m.k, by(alpha), at<T>(m.A), m.lda, at<T>(m.B), m.ldb,
                       value<Real<T>>(m.beta), at<T>(m.C), m.ldc);
    });
}

CUresult run(syrkx& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        if (m.n > 0) add_triangle<T>(m, false, value<T>(m.beta));
    });
}

CUresult run(herkx& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        if (m.n == 0) return;
        add_triangle<T>(m, true, value<Real<T>>(m.beta));
        T* c = at<T>(m.C);
        for (int64_t i = 0; i < m.n; ++i) c[i * m.ldc + i] = c[i * m.ldc + i].real();
    });
}

// cuBLAS' product has a result of its own, BLAS' has B.
CUresult run(trmm& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha);
        T* c = at<T>(m.C);
        if (m.m == 0 || m.n == 0) return;
        if (alpha == T(0)) return clear_matrix(c, m.ldc, m.m, m.n);
        if (m.B != m.C) copy_matrix(at<const T>(m.B), m.ldb, c, m.ldc, m.m, m.n);
        Blas<T>::trmm(kColumns, side_of(m.side), fill_of(m.uplo), op_of(m.trans), diag_of(m.diag), m.m, m.n,
                      by(alpha), at<T>(m.A), m.lda, c, m.ldc);
    });
}

CUresult run(trsm& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        if (m.m > 0 && m.n > 0) solve(m, value<T>(m.alpha), at<const T>(m.A), at<T>(m.B));
    });
}

CUresult run(trsm_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        for (int64_t i = 0; i < m.batch && m.B && !work.stopped(); ++i) {
            solve(m, value<T>(m.alpha), nth<const T>(m.A, i), nth<T>(m.B, i));
        }
    });
}

CUresult run(geam& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha), beta = value<T>(m.beta), zero(0);
        T* c = at<T>(m.C);
        for (int64_t j = 0; m.m > 0 && j < m.n && !work.stopped(); ++j) {
            for (int64_t i = 0; i < m.m; ++i) {
                const T a = alpha == zero ? zero : alpha * element_of(at<const T>(m.A), m.transa, m.lda, i, j);
                const T b = beta == zero ? zero : beta * element_of(at<const T>(m.B), m.transb, m.ldb, i, j);
                c[j * m.ldc + i] = a + b;
            }
        }
    });
}

CUresult run(dgmm& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        const T* a = at<const T>(m.A);
        const T* x = first<const T>(m.x, m.side ? m.n : m.m, m.incx);
        for (int64_t j = 0; m.m > 0 && j < m.n && !work.stopped(); ++j) {
            for (int64_t i = 0; i < m.m; ++i) {
                at<T>(m.C)[j * m.ldc + i] = a[j * m.lda + i] * x[(m.side ? j : i) * m.incx];
            }
        }
    });
}

}  // namespace maths::cublas
