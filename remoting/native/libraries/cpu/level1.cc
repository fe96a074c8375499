// cuBLAS' functions on vectors. Where LAPACK's loops are as good as any, they are plain loops here.
#include <cmath>

#include "blas.h"
#include "cublas_cpu.h"
#include "number.h"

namespace maths::cublas {
namespace {

// |re| + |im|, by which BLAS compares.
template <typename T>
Real<T> size_of(T x) {
    if constexpr (kIsComplex<T>) {
        return std::abs(x.real()) + std::abs(x.imag());
    } else {
        return std::abs(x);
    }
}

// The place of the first of the largest, or least, counted from 1; 0 where there are none.
template <typename T, typename Better>
int64_t extreme(const T* x, int64_t n, int64_t step, Better better) {
    if (n <= 0 || step <= 0) return 0;
    int64_t found = 0;
    for (int64_t i = 1; i < n; ++i) {
        if (better(size_of(x[i * step]), size_of(x[found * step]))) found = i;
    }
    return found + 1;
}

template <typename Message, typename Better>
CUresult place_extreme(const Message& m, Type type, bool wide, Better better) {
    return of_type(type, [&]<typename T>(T) {
        const int64_t found = extreme(at<const T>(m.x), m.n, m.incx, better);
        if (wide) {
            *at<int64_t>(m.result) = found;
        } else {
            *at<int32_t>(m.result) = static_cast<int32_t>(found);
        }
    });
}

template <typename T, typename Real_, typename S>
void rotate(T* x, int64_t x_step, T* y, int64_t y_step, int64_t n, Real_ c, S s) {
    for (int64_t i = 0; i < n; ++i) {
        const T old_x = x[i * x_step], old_y = y[i * y_step];
        x[i * x_step] = c * old_x + s * old_y;
        y[i * y_step] = c * old_y - conjugate(s) * old_x;
    }
}

}  // namespace

CUresult run(axpy& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha);
        if (m.n > 0 && alpha != T(0)) {
            Blas<T>::axpy(m.n, by(alpha), at<T>(m.x), m.incx, at<T>(m.y), m.incy);
        }
    });
}

CUresult run(copy& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        if (m.n > 0) Blas<T>::copy(m.n, at<T>(m.x), m.incx, at<T>(m.y), m.incy);
    });
}

CUresult run(swap& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        if (m.n > 0) Blas<T>::swap(m.n, at<T>(m.x), m.incx, at<T>(m.y), m.incy);
    });
}

CUresult run(scal& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const T alpha = value<T>(m.alpha);
        if (m.n > 0 && m.incx > 0) Blas<T>::scal(m.n, by(alpha), at<T>(m.x), m.incx);
    });
}

CUresult run(scal_real& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        if (m.n > 0 && m.incx > 0) Blas<T>::scal_real(m.n, value<Real<T>>(m.alpha), at<T>(m.x), m.incx);
    });
}

CUresult run(dot& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        T result(0);
        if constexpr (kIsComplex<T>) {
            if (m.n > 0) Blas<T>::dotu_sub(m.n, at<T>(m.x), m.incx, at<T>(m.y), m.incy, &result);
        } else {
            if (m.n > 0) result = Blas<T>::dot(m.n, at<T>(m.x), m.incx, at<T>(m.y), m.incy);
        }
        *at<T>(m.result) = result;
    });
}

CUresult run(dotc& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        T result(0);
        if (m.n > 0) Blas<T>::dotc_sub(m.n, at<T>(m.x), m.incx, at<T>(m.y), m.incy, &result);
        *at<T>(m.result) = result;
    });
}

CUresult run(nrm2& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const bool any = m.n > 0 && m.incx > 0;
        *at<Real<T>>(m.result) = any ? Blas<T>::nrm2(m.n, at<T>(m.x), m.incx) : 0;
    });
}

CUresult run(asum& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const bool any = m.n > 0 && m.incx > 0;
        *at<Real<T>>(m.result) = any ? Blas<T>::asum(m.n, at<T>(m.x), m.incx) : 0;
    });
}

CUresult run(amax& m, Type type, Work& work) {
    return place_extreme(m, type, work.wide(), [](auto a, auto b) { return a > b; });
}

CUresult run(amin& m, Type type, Work& work) {
    return place_extreme(m, type, work.wide(), [](auto a, auto b) { return a < b; });
}

CUresult run(rot& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        if (m.n <= 0) return;
        rotate(first<T>(m.x, m.n, m.incx), m.incx, first<T>(m.y, m.n, m.incy), m.incy, m.n,
               value<Real<T>>(m.c), value<T>(m.s));
    });
}

CUresult run(rot_real& m, Type type, Work&) {
    return of_complex_type(type, [&]<typename T>(T) {
        if (m.n <= 0) return;
        rotate(first<T>(m.x, m.n, m.incx), m.incx, first<T>(m.y, m.n, m.incy), m.incy, m.n,
               value<Real<T>>(m.c), value<Real<T>>(m.s));
    });
}

CUresult run(rotg& m, Type type, Work&) {
    return of_type(
        type, [&]<typename T>(T) { Blas<T>::rotg(at<T>(m.a), at<T>(m.b), at<Real<T>>(m.c), at<T>(m.s)); });
}

CUresult run(rotm& m, Type type, Work&) {
    return of_real_type(type, [&]<typename T>(T) {
        if (m.n <= 0) return;
        T param[5];
        std::copy_n(at<const T>(m.param), 5, param);
        Blas<T>::rotm(m.n, at<T>(m.x), m.incx, at<T>(m.y), m.incy, param);
    });
}

// OpenBLAS scales in a loop that has no end for what is not finite, or becomes so on the way.
CUresult run(rotmg& m, Type type, Work& work) {
    return of_real_type(type, [&]<typename T>(T) {
        T d1 = *at<const T>(m.d1), d2 = *at<const T>(m.d2), x1 = *at<const T>(m.x1);
        const T y1 = *at<const T>(m.y1);
        for (const T each : {d1 * x1 * x1, d2 * y1 * y1, d1 * y1 * y1, d2 * x1 * x1, d1, d2, x1, y1}) {
            if (!std::isfinite(each))
                work.fail(CUDA_ERROR_INVALID_VALUE, "a number that is not finite, or whose square is not");
        }
        T param[5];
        std::copy_n(at<const T>(m.param), 5, param);
        Blas<T>::rotmg(&d1, &d2, &x1, y1, param);
        std::copy_n(param, 5, at<T>(m.param));
        *at<T>(m.d1) = d1, *at<T>(m.d2) = d2, *at<T>(m.x1) = x1;
    });
}

// The functions whose types are arguments: sums in double precision, results rounded once.

CUresult run(axpy_ex& m, Type, Work&) {
    const Type alpha_type = as_type(m.alphaType), type = as_type(m.xType);
    const Number alpha = get(alpha_type, &m.alpha, 0);
    if (m.n <= 0 || alpha == Number(0)) return CUDA_SUCCESS;
    const auto* x = first(m.x, m.n, m.incx, bytes_of(type));
    auto* y = first(m.y, m.n, m.incy, bytes_of(type));
    for (int64_t i = 0; i < m.n; ++i) {
        put(type, y, i * m.incy, alpha * get(type, x, i * m.incx) + get(type, y, i * m.incy));
    }
    return CUDA_SUCCESS;
}

CUresult run(scal_ex& m, Type, Work&) {
    const Type type = as_type(m.xType);
    const Number alpha = get(as_type(m.alphaType), &m.alpha, 0);
    auto* x = at<std::byte>(m.x);
    for (int64_t i = 0; i < m.n && m.incx > 0; ++i) {
        put(type, x, i * m.incx, alpha * get(type, x, i * m.incx));
    }
    return CUDA_SUCCESS;
}

namespace {

template <typename Message, typename Multiply>
CUresult sum_products(const Message& m, Multiply multiply) {
    const Type type = as_type(m.xType);
    const auto* x = first(m.x, m.n, m.incx, bytes_of(type));
    const auto* y = first(m.y, m.n, m.incy, bytes_of(type));
    Number sum = 0;
    for (int64_t i = 0; i < m.n; ++i) sum += multiply(get(type, x, i * m.incx), get(type, y, i * m.incy));
    put(as_type(m.resultType), at<std::byte>(m.result), 0, sum);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult run(dot_ex& m, Type, Work&) {
    return sum_products(m, [](Number x, Number y) { return x * y; });
}

CUresult run(dotc_ex& m, Type, Work&) {
    return sum_products(m, [](Number x, Number y) { return std::conj(x) * y; });
}

CUresult run(nrm2_ex& m, Type, Work&) {
    const Type type = as_type(m.xType);
    double norm = 0;
    for (int64_t i = 0; i < m.n && m.incx > 0; ++i) {
        norm = std::hypot(norm, std::abs(get(type, at<const std::byte>(m.x), i * m.incx)));
    }
    put(as_type(m.resultType), at<std::byte>(m.result), 0, norm);
    return CUDA_SUCCESS;
}

}  // namespace maths::cublas
