// Tridiagonal systems, by LAPACK: with exchanges of rows, those too for which cuSPARSE does without. A matrix
// that is singular gives what is no number.
#include "blas.h"
#include "cusparse_messages.h"
#include "sparse/walk.h"

namespace maths::cusparse {
namespace {

template <typename T>
struct Lapack;

#define GK_TRIDIAGONAL(T, t)                                            \
    template <>                                                         \
    struct Lapack<T> {                                                  \
        static constexpr auto gttrf = scipy_LAPACKE_##t##gttrf_work64_; \
        static constexpr auto gttrs = scipy_LAPACKE_##t##gttrs_work64_; \
    };
GK_TRIDIAGONAL(float, s)
GK_TRIDIAGONAL(double, d)
GK_TRIDIAGONAL(std::complex<float>, c)
GK_TRIDIAGONAL(std::complex<double>, z)

// The factors of a matrix of m rows: LAPACK reads again what it has written, so they are copies.
template <typename T>
class Factors {
  public:
    static uint64_t bytes_for(int64_t m) { return product(length(m), 4 * sizeof(T) + sizeof(lapack_int)); }
    // The first element below and the last above the diagonal are not there.
    Factors(int64_t m, const T* below, const T* on, const T* above)
        : m_(m),
          below_(below + 1, below + m),
          on_(on, on + m),
          above_(above, above + m - 1),
          above_those_(static_cast<size_t>(m)),
          pivots_(static_cast<size_t>(m)) {
        Lapack<T>::gttrf(m_, below_.data(), on_.data(), above_.data(), above_those_.data(), pivots_.data());
    }
    void solve(std::vector<T>& b) {
        Lapack<T>::gttrs(LAPACK_COL_MAJOR, 'N', m_, 1, below_.data(), on_.data(), above_.data(),
                         above_those_.data(), pivots_.data(), b.data(), m_);
    }

  private:
    const int64_t m_;
    std::vector<T> below_, on_, above_, above_those_;
    std::vector<lapack_int> pivots_;
};

// Column by column, in a copy.
template <typename T>
void solve(Factors<T>& factors, std::vector<T>& column, T* b, Walk& walk) {
    std::copy_n(b, column.size(), column.data());
    factors.solve(column);
    std::copy_n(column.data(), column.size(), b);
    walk.step(static_cast<int64_t>(column.size()));
}

template <typename T>
uint64_t bytes_for(int64_t m) {
    return sum(Factors<T>::bytes_for(m), product(length(m), sizeof(T)));
}

}  // namespace

CUresult run(gtsv2& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        Walk walk(work);
        work.reserve(bytes_for<T>(m.m));
        if (m.n == 0) return;
        Factors<T> factors(m.m, at<T>(m.dl), at<T>(m.d), at<T>(m.du));
        std::vector<T> column(static_cast<size_t>(m.m));
        for (int64_t j = 0; j < m.n; ++j) solve(factors, column, at<T>(m.B) + j * m.ldb, walk);
    });
}

CUresult run(gtsv2_batched& m, Type type, Work& work) {
    return of_type(type, [&]<typename T>(T) {
        Walk walk(work);
        work.reserve(bytes_for<T>(m.m));
        std::vector<T> column(static_cast<size_t>(m.m));
        for (int64_t i = 0; i < m.batch; ++i) {
            const int64_t place = i * m.apart;
            Factors<T> factors(m.m, at<T>(m.dl) + place, at<T>(m.d) + place, at<T>(m.du) + place);
            solve(factors, column, at<T>(m.x) + place, walk);
        }
    });
}

}  // namespace maths::cusparse
