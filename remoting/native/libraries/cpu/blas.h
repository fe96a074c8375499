// OpenBLAS' functions by type. Integers have 64 bits, so that no size of a call is cut.
#pragma once

#include <cblas.h>

#include <complex>

#define LAPACK_ILP64
#define LAPACK_COMPLEX_CUSTOM
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>

namespace maths {

template <typename T>
struct Blas;

#define GK_FOR_ALL(X, t)                                                                                     \
    X(t, axpy)                                                                                               \
    X(t, copy) X(t, swap) X(t, scal) X(t, gemv) X(t, gbmv) X(t, trmv) X(t, trsv) X(t, tbmv) X(t, tbsv)       \
        X(t, tpmv) X(t, tpsv) X(t, gemm) X(t, gemmt) X(t, symm) X(t, syrk) X(t, syr2k) X(t, trmm) X(t, trsm) \
            X(t, rotg)
#define GK_FOR_REAL(X, t)                                                                             \
    X(t, dot)                                                                                         \
    X(t, nrm2) X(t, asum) X(t, rotm) X(t, rotmg) X(t, symv) X(t, sbmv) X(t, spmv) X(t, ger) X(t, syr) \
        X(t, syr2) X(t, spr) X(t, spr2)
#define GK_FOR_COMPLEX(X, t)                                                                             \
    X(t, dotu_sub)                                                                                       \
    X(t, dotc_sub) X(t, hemv) X(t, hbmv) X(t, hpmv) X(t, geru) X(t, gerc) X(t, her) X(t, her2) X(t, hpr) \
        X(t, hpr2) X(t, hemm) X(t, herk) X(t, her2k)
// What cuBLAS has under one name for all types.
#define GK_AS_REAL                     \
    static constexpr auto sbmv = hbmv; \
    static constexpr auto spmv = hpmv; \
    static constexpr auto spr = hpr;   \
    static constexpr auto spr2 = hpr2; \
    static constexpr auto ger = geru;
#define GK_CBLAS(t, name) static constexpr auto name = scipy_cblas_##t##name##64_;
#define GK_LAPACKE(t, name) static constexpr auto name = scipy_LAPACKE_##t##name##_work64_;
#define GK_FOR_LAPACK(X, t) X(t, getrf) X(t, getrs) X(t, getri) X(t, geqrf) X(t, gels)

template <>
struct Blas<float> {
    GK_FOR_ALL(GK_CBLAS, s)
    GK_FOR_REAL(GK_CBLAS, s)
    GK_FOR_LAPACK(GK_LAPACKE, s)
};
template <>
struct Blas<double> {
    GK_FOR_ALL(GK_CBLAS, d)
    GK_FOR_REAL(GK_CBLAS, d)
    GK_FOR_LAPACK(GK_LAPACKE, d)
};
template <>
struct Blas<std::complex<float>> {
    GK_FOR_ALL(GK_CBLAS, c)
    GK_FOR_COMPLEX(GK_CBLAS, c)
    GK_FOR_LAPACK(GK_LAPACKE, c)
    static constexpr auto scal_real = scipy_cblas_csscal64_;
    GK_AS_REAL
    static constexpr auto nrm2 = scipy_cblas_scnrm264_;
    static constexpr auto asum = scipy_cblas_scasum64_;
};
template <>
struct Blas<std::complex<double>> {
    GK_FOR_ALL(GK_CBLAS, z)
    GK_FOR_COMPLEX(GK_CBLAS, z)
    GK_FOR_LAPACK(GK_LAPACKE, z)
    static constexpr auto scal_real = scipy_cblas_zdscal64_;
    GK_AS_REAL
    static constexpr auto nrm2 = scipy_cblas_dznrm264_;
    static constexpr auto asum = scipy_cblas_dzasum64_;
};

// A scalar as CBLAS takes it: real ones by value, complex ones by address.
inline float by(const float& x) {
    return x;
}
inline double by(const double& x) {
    return x;
}
template <typename T>
const void* by(const std::complex<T>& x) {
    return &x;
}

inline constexpr CBLAS_ORDER kColumns = CblasColMajor;
inline CBLAS_TRANSPOSE op_of(int64_t op) {
    return op == 0 ? CblasNoTrans : op == 1 ? CblasTrans : CblasConjTrans;
}
inline CBLAS_UPLO fill_of(int64_t fill) {
    return fill == 0 ? CblasLower : CblasUpper;
}
inline CBLAS_SIDE side_of(int64_t side) {
    return side == 0 ? CblasLeft : CblasRight;
}
inline CBLAS_DIAG diag_of(int64_t diag) {
    return diag == 0 ? CblasNonUnit : CblasUnit;
}

}  // namespace maths
