// cuBLAS' functions of a matrix and vectors.
#include <algorithm>
#include <string>
#include <vector>

#include "blas.h"
#include "cublas_cpu.h"
#include "software_limits.h"

namespace maths::cublas {
namespace {

// y = beta y, where y is not looked at when beta is 0.
template <typename T>
void scale(T beta, uint64_t y, int64_t n, int64_t step) {
    if (beta == T(1)) return;
    T* element = first<T>(y, n, step);
    for (int64_t i = 0; i < n; ++i) element[i * step] = beta == T(0) ? T(0) : beta * element[i * step];
}

// The vector without gaps, for functions that LAPACK has for matrices alone.
template <typename T>
std::vector<T> gathered(uint64_t x, int64_t n, int64_t step) {
    std::vector<T> all(static_cast<size_t>(n));
    const T* element = first<T>(x, n, step);
    for (int64_t i = 0; i < n; ++i) all[static_cast<size_t>(i)] = element[i * step];
    return all;
}

// y = alpha A x + beta y in the three forms of A: `multiply` adds alpha A x.
template <typename T, typename Message, typename Multiply>
void update(const Message& m, int64_t rows, Multiply multiply) {
    scale(value<T>(m.beta), m.y, rows, m.incy);
    const T alpha = value<T>(m.alpha), one(1);
    if (rows > 0 && alpha != T(0)) multiply(alpha, one);
}

// y += alpha op(A) x by blocks of A, each as a product of matrices: for vectors that OpenBLAS has no room
// for. What it works in here is no slice's, so a block is small.
template <typename T>
void add_product(const gemv& m, T alpha, int64_t rows, int64_t columns, const Work& work) {
    constexpr int64_t kBlock = 1 << 18;
    const T zero(0);
    const T *const a = at<T>(m.A), *const x = first<T>(m.x, columns, m.incx);
    T* const y = first<T>(m.y, rows, m.incy);
    std::vector<T> part, sum;
    for (int64_t j = 0; j < columns; j += kBlock) {
        const int64_t wide = std::min(kBlock, columns - j);
        part.resize(static_cast<size_t>(wide));
        for (int64_t l = 0; l < wide; ++l) part[static_cast<size_t>(l)] = x[(j + l) * m.incx];
        for (int64_t i = 0; i < rows && !work.stopped(); i += kBlock) {
            const int64_t high = std::min(kBlock, rows - i);
            sum.resize(static_cast<size_t>(high));
            const T* const block = m.trans == 0 ? a + j * m.lda + i : a + i * m.lda + j;
            Blas<T>::gemm(kColumns, op_of(m.trans), CblasNoTrans, high, 1, wide, by(alpha), block, m.lda,
                          part.data(), wide, by(zero), sum.data(), high);
            for (int64_t l = 0; l < high; ++l) y[(i + l) * m.incy] += sum[static_cast<size_t>(l)];
        }
    }
}

}  // namespace

CUresult run(gemv& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        if (m.m == 0 || m.n == 0) return;
        const int64_t rows = m.trans ? m.n : m.m, columns = m.trans ? m.m : m.n;
        update<T>(m, rows, [&](T alpha, T one) {
            if (std::max(rows, columns) <= most_elements(sizeof(T), work.threads())) {
                Blas<T>::gemv(kColumns, op_of(m.trans), m.m, m.n, by(alpha), at<T>(m.A), m.lda, at<T>(m.x),
                              m.incx, by(one), at<T>(m.y), m.incy);
                return;
            }
            add_product(m, alpha, rows, columns, work);
        });
    });
}

CUresult run(gbmv& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        if (m.m == 0 || m.n == 0) return;
        update<T>(m, m.trans ? m.n : m.m, [&](T alpha, T one) {
            Blas<T>::gbmv(kColumns, op_of(m.trans), m.m, m.n, m.kl, m.ku, by(alpha), at<T>(m.A), m.lda,
                          at<T>(m.x), m.incx, by(one), at<T>(m.y), m.incy);
        });
    });
}

#define TRIANGLE(name)                                                                                 \
    CUresult run(name& m, Type type, Work&) {                                                          \
        return of_type(type, [&]<typename T>(T) {                                                      \
            if (m.n == 0) return;                                                                      \
            Blas<T>::name(kColumns, fill_of(m.uplo), op_of(m.trans), diag_of(m.diag), m.n, at<T>(m.A), \
                          m.lda, at<T>(m.x), m.incx);                                                  \
        });                                                                                            \
    }
TRIANGLE(trmv)
TRIANGLE(trsv)
#undef TRIANGLE

#define BAND(name)                                                                                          \
    CUresult run(name& m, Type type, Work&) {                                                               \
        return of_type(type, [&]<typename T>(T) {                                                           \
            if (m.n == 0) return;                                                                           \
            Blas<T>::name(kColumns, fill_of(m.uplo), op_of(m.trans), diag_of(m.diag), m.n, m.k, at<T>(m.A), \
                          m.lda, at<T>(m.x), m.incx);                                                       \
        });                                                                                                 \
    }
BAND(tbmv)
BAND(tbsv)
#undef BAND

#define PACKED(name)                                                                                    \
    CUresult run(name& m, Type type, Work&) {                                                           \
        return of_type(type, [&]<typename T>(T) {                                                       \
            if (m.n == 0) return;                                                                       \
            Blas<T>::name(kColumns, fill_of(m.uplo), op_of(m.trans), diag_of(m.diag), m.n, at<T>(m.AP), \
                          at<T>(m.x), m.incx);                                                          \
        });                                                                                             \
    }
PACKED(tpmv)
PACKED(tpsv)
#undef PACKED

CUresult run(symv& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        update<T>(m, m.n, [&](T alpha, T one) {
            if constexpr (kIsComplex<T>) {
                const std::vector<T> x = gathered<T>(m.x, m.n, m.incx);
                std::vector<T> sum(x.size());
                const T zero(0);
                Blas<T>::symm(kColumns, CblasLeft, fill_of(m.uplo), m.n, 1, by(alpha), at<T>(m.A), m.lda,
                              x.data(), m.n, by(zero), sum.data(), m.n);
                T* y = first<T>(m.y, m.n, m.incy);
                for (int64_t i = 0; i < m.n; ++i) y[i * m.incy] += sum[static_cast<size_t>(i)];
            } else {
                Blas<T>::symv(kColumns, fill_of(m.uplo), m.n, alpha, at<T>(m.A), m.lda, at<T>(m.x), m.incx,
                              one, at<T>(m.y), m.incy);
            }
        });
    });
}

CUresult run(hemv& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        update<T>(m, m.n, [&](T alpha, T one) {
            Blas<T>::hemv(kColumns, fill_of(m.uplo), m.n, by(alpha), at<T>(m.A), m.lda, at<T>(m.x), m.incx,
                          by(one), at<T>(m.y), m.incy);
        });
    });
}

CUresult run(sbmv& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        update<T>(m, m.n, [&](T alpha, T one) {
            Blas<T>::sbmv(kColumns, fill_of(m.uplo), m.n, m.k, by(alpha), at<T>(m.A), m.lda, at<T>(m.x),
                          m.incx, by(one), at<T>(m.y), m.incy);
        });
    });
}

CUresult run(spmv& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        update<T>(m, m.n, [&](T alpha, T one) {
            Blas<T>::spmv(kColumns, fill_of(m.uplo), m.n, by(alpha), at<T>(m.AP), at<T>(m.x), m.incx, by(one),
                          at<T>(m.y), m.incy);
        });
    });
}

CUresult run(ger& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha);
        if (m.m == 0 || m.n == 0 || alpha == T(0)) return;
        Blas<T>::ger(kColumns, m.m, m.n, by(alpha), at<T>(m.x), m.incx, at<T>(m.y), m.incy, at<T>(m.A),
                     m.lda);
    });
}

CUresult run(gerc& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha);
        if (m.m == 0 || m.n == 0 || alpha == T(0)) return;
        Blas<T>::gerc(kColumns, m.m, m.n, by(alpha), at<T>(m.x), m.incx, at<T>(m.y), m.incy, at<T>(m.A),
                      m.lda);
    });
}

CUresult run(syr& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha), one(1);
        if (m.n == 0 || alpha == T(0)) return;
        if constexpr (kIsComplex<T>) {
            const std::vector<T> x = gathered<T>(m.x, m.n, m.incx);
            Blas<T>::syrk(kColumns, fill_of(m.uplo), CblasNoTrans, m.n, 1, by(alpha), x.data(), m.n, by(one),
                          at<T>(m.A), m.lda);
        } else {
            Blas<T>::syr(kColumns, fill_of(m.uplo), m.n, alpha, at<T>(m.x), m.incx, at<T>(m.A), m.lda);
        }
    });
}

CUresult run(her& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        const auto alpha = value<Real<T>>(m.alpha);
        if (m.n == 0 || alpha == 0) return;
        Blas<T>::her(kColumns, fill_of(m.uplo), m.n, alpha, at<T>(m.x), m.incx, at<T>(m.A), m.lda);
    });
}

CUresult run(syr2& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha), one(1);
        if (m.n == 0 || alpha == T(0)) return;
        if constexpr (kIsComplex<T>) {
            const std::vector<T> x = gathered<T>(m.x, m.n, m.incx), y = gathered<T>(m.y, m.n, m.incy);
            Blas<T>::syr2k(kColumns, fill_of(m.uplo), CblasNoTrans, m.n, 1, by(alpha), x.data(), m.n,
                           y.data(), m.n, by(one), at<T>(m.A), m.lda);
        } else {
            Blas<T>::syr2(kColumns, fill_of(m.uplo), m.n, alpha, at<T>(m.x), m.incx, at<T>(m.y), m.incy,
                          at<T>(m.A), m.lda);
        }
    });
}

CUresult run(her2& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha);
        if (m.n == 0 || alpha == T(0)) return;
        Blas<T>::her2(kColumns, fill_of(m.uplo), m.n, by(alpha), at<T>(m.x), m.incx, at<T>(m.y), m.incy,
                      at<T>(m.A), m.lda);
    });
}

CUresult run(spr& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const auto alpha = value<Real<T>>(m.alpha);
        if (m.n == 0 || alpha == 0) return;
        Blas<T>::spr(kColumns, fill_of(m.uplo), m.n, alpha, at<T>(m.x), m.incx, at<T>(m.AP));
    });
}

CUresult run(spr2& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha);
        if (m.n == 0 || alpha == T(0)) return;
        Blas<T>::spr2(kColumns, fill_of(m.uplo), m.n, by(alpha), at<T>(m.x), m.incx, at<T>(m.y), m.incy,
                      at<T>(m.AP));
    });
}

}  // namespace maths::cublas
