// cuBLAS' batched functions of LAPACK's kind. LAPACK writes pivots and reads them again; others may write the
// slice's memory meanwhile. So it has pivots of its own here: those that a program gives are copied, looked
// at and used.
#include <algorithm>

#include "blas.h"
#include "cublas_cpu.h"

namespace maths::cublas {
namespace {

using Pivots = std::vector<lapack_int>;

// Of the i-th of a batch; where a program gives none, no rows are exchanged.
template <typename Message>
Pivots pivots_of(const Message& m, int64_t i, const Work& work) {
    Pivots pivots(static_cast<size_t>(m.n));
    for (int64_t row = 0; row < m.n; ++row) {
        // Read once: `volatile`, since another may change it before it is used.
        const int64_t pivot =
            m.pivots ? const_cast<const volatile int32_t*>(at<int32_t>(m.pivots))[i * m.n + row] : row + 1;
        if (pivot < 1 || pivot > m.n) {
            work.fail(CUDA_ERROR_ILLEGAL_ADDRESS, "pivot " + std::to_string(pivot) + " of matrix " +
                                                      std::to_string(i) + " is no row of it");
        }
        pivots[static_cast<size_t>(row)] = pivot;
    }
    return pivots;
}

// The factors of A without exchanges of rows; the first row whose pivot is 0, counted from 1.
template <typename T>
int64_t factor_in_order(const Work& work, T* a, int64_t n, int64_t lead) {
    int64_t zero_at = 0;
    for (int64_t k = 0; k < n && !work.stopped(); ++k) {
        const T pivot = a[k * lead + k];
        if (pivot == T(0)) {
            if (!zero_at) zero_at = k + 1;
            continue;
        }
        for (int64_t i = k + 1; i < n; ++i) a[k * lead + i] /= pivot;
        for (int64_t j = k + 1; j < n; ++j) {
            const T times = a[j * lead + k];
            for (int64_t i = k + 1; i < n; ++i) a[j * lead + i] -= a[k * lead + i] * times;
        }
    }
    return zero_at;
}

template <typename T>
void copy_square(const T* from, int64_t from_lead, T* to, int64_t to_lead, int64_t n) {
    for (int64_t j = 0; j < n; ++j) std::copy_n(from + j * from_lead, n, to + j * to_lead);
}

// What LAPACK works in: so much that it works by blocks, unless that were much.
template <typename T>
std::vector<T> room_for(int64_t n) {
    constexpr int64_t kBlock = 32, kFew = 1 << 16;
    return std::vector<T>(static_cast<size_t>(n <= kFew ? n * kBlock + 1 : n));
}

template <typename T>
void reserve_room(Work& work, int64_t n) {
    constexpr uint64_t kBlock = 32, kFew = 1 << 16;
    const uint64_t numbers = sum(length(n), std::min(product(length(n), kBlock), kFew * kBlock));
    work.reserve(sum(product(numbers, sizeof(T)), product(length(n), sizeof(lapack_int))));
}

template <typename T>
lapack_int inverse(T* a, int64_t lead, const Pivots& pivots) {
    const auto n = static_cast<lapack_int>(pivots.size());
    std::vector<T> room = room_for<T>(n);
    return Blas<T>::getri(LAPACK_COL_MAJOR, n, a, lead, pivots.data(), room.data(),
                          static_cast<lapack_int>(room.size()));
}

}  // namespace

CUresult run(getrf_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        Pivots pivots(static_cast<size_t>(m.A ? m.n : 0));
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
            int64_t info = 0;
            T* a = nth<T>(m.A, i);
            if (a && m.pivots) {
                info = Blas<T>::getrf(LAPACK_COL_MAJOR, m.n, m.n, a, m.lda, pivots.data());
                std::transform(pivots.begin(), pivots.end(), at<int32_t>(m.pivots) + i * m.n,
                               [](lapack_int pivot) { return static_cast<int32_t>(pivot); });
            } else if (a) {
                info = factor_in_order(work, a, m.n, m.lda);
            }
            at<int32_t>(m.info)[i] = static_cast<int32_t>(info);
        }
    });
}

CUresult run(getrs_batched& m, Type type, Work& work) {
    constexpr char kOperation[] = {'N', 'T', 'C'};
    return of_type(type, [&]<typename T>(T) {
        for (int64_t i = 0; i < m.batch && m.B && m.A && !work.stopped(); ++i) {
            const Pivots pivots = pivots_of(m, i, work);
            Blas<T>::getrs(LAPACK_COL_MAJOR, kOperation[m.trans], m.n, m.nrhs, nth<T>(m.A, i), m.lda,
                           pivots.data(), nth<T>(m.B, i), m.ldb);
        }
    });
}

CUresult run(getri_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve_room<T>(work, m.n);
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
            int64_t info = 0;
            if (m.A && m.C) {
                const Pivots pivots = pivots_of(m, i, work);
                copy_square(nth<const T>(m.A, i), m.lda, nth<T>(m.C, i), m.ldc, m.n);
                info = inverse(nth<T>(m.C, i), m.ldc, pivots);
            }
            at<int32_t>(m.info)[i] = static_cast<int32_t>(info);
        }
    });
}

CUresult run(matinv_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        reserve_room<T>(work, m.n);
        Pivots pivots(static_cast<size_t>(m.n));
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
            int64_t info = 0;
            if (T* c = nth<T>(m.C, i); c && m.A) {
                copy_square(nth<const T>(m.A, i), m.lda, c, m.ldc, m.n);
                info = Blas<T>::getrf(LAPACK_COL_MAJOR, m.n, m.n, c, m.ldc, pivots.data());
                if (info == 0) info = inverse(c, m.ldc, pivots);
            }
            at<int32_t>(m.info)[i] = static_cast<int32_t>(info);
        }
    });
}

CUresult run(geqrf_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        if (!m.A || !m.tau) return;
        reserve_room<T>(work, m.n);
        std::vector<T> room = room_for<T>(m.n);
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
            Blas<T>::geqrf(LAPACK_COL_MAJOR, m.m, m.n, nth<T>(m.A, i), m.lda, nth<T>(m.tau, i), room.data(),
                           static_cast<lapack_int>(room.size()));
        }
    });
}

CUresult run(gels_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        const bool any = m.A && m.C;
        reserve_room<T>(work, any ? plus(m.n, m.m, m.nrhs) : 0);
        std::vector<T> room = room_for<T>(any ? m.n + std::max(m.m, m.nrhs) : 0);
        for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
            int64_t info = 0;
            if (any) {
                info =
                    Blas<T>::gels(LAPACK_COL_MAJOR, 'N', m.m, m.n, m.nrhs, nth<T>(m.A, i), m.lda,
                                  nth<T>(m.C, i), m.ldc, room.data(), static_cast<lapack_int>(room.size()));
            }
            if (m.devInfo) at<int32_t>(m.devInfo)[i] = static_cast<int32_t>(info);
        }
    });
}

CUresult run(tpttr& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        const T* from = at<const T>(m.AP);
        for (int64_t j = 0; j < m.n; ++j) {
            const int64_t begin = m.uplo == 0 ? j : 0, end = m.uplo == 0 ? m.n : j + 1;
            std::copy_n(from, end - begin, at<T>(m.A) + j * m.lda + begin);
            from += end - begin;
        }
    });
}

CUresult run(trttp& m, Type type, Work&) {
    return of_type(type, [&]<typename T>(T) {
        T* to = at<T>(m.AP);
        for (int64_t j = 0; j < m.n; ++j) {
            const int64_t begin = m.uplo == 0 ? j : 0, end = m.uplo == 0 ? m.n : j + 1;
            to = std::copy_n(at<const T>(m.A) + j * m.lda + begin, end - begin, to);
        }
    });
}

}  // namespace maths::cublas
