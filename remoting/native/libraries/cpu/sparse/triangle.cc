// Systems with a triangular matrix. What lies outside of the triangle is not looked at.
#include "sparse/compressed.h"
#include "sparse/sparse_cpu.h"

namespace maths::cusparse {
namespace {

template <typename T>
class Triangle {
  public:
    Triangle(const Sparse& m, int64_t op, Walk& walk)
        : matrix_(m, "A", op, walk),
          is_lower_((m.fill == kLower) == (op == 0)),
          is_unit_(m.diag != 0),
          walk_(walk) {}

    // With a column of what is to be found.
    static uint64_t bytes_for(const Sparse& m, int64_t op) {
        return sum(Compressed<T>::bytes_for(m, op), product(height(m), sizeof(T)));
    }
    int64_t rows() const { return matrix_.rows; }
    // In place.
    void solve(std::vector<T>& x) const {
        for (int64_t i = 0; i < matrix_.rows; ++i) {
            const int64_t row = is_lower_ ? i : matrix_.rows - 1 - i;
            solve_row(row, x);
        }
    }

  private:
    void solve_row(int64_t row, std::vector<T>& x) const {
        const auto at = static_cast<size_t>(row);
        T sum = x[at], diagonal{};
        for (auto k = static_cast<size_t>(matrix_.offsets[at]);
             k < static_cast<size_t>(matrix_.offsets[at + 1]); ++k) {
            const int64_t column = matrix_.columns[k];
            if (column == row) diagonal += matrix_.values[k];
            if (is_lower_ ? column < row : column > row) {
                sum -= times(matrix_.values[k], x[static_cast<size_t>(column)]);
            }
            walk_.step();
        }
        walk_.step();
        x[at] = is_unit_ ? sum : sum / diagonal;
    }

    const Compressed<T> matrix_;
    const bool is_lower_, is_unit_;
    Walk& walk_;
};

}  // namespace

CUresult run(spsv& m, Type, Work& work) {
    return of_type(as_type(m.compute), [&]<typename T>(T) {
        Walk walk(work);
        work.reserve(Triangle<T>::bytes_for(m.A, m.op));
        const Triangle<T> triangle(m.A, m.op, walk);
        std::vector<T> x(static_cast<size_t>(m.x.size));
        for (size_t i = 0; i < x.size(); ++i) x[i] = times(value<T>(m.alpha), at<T>(m.x.values)[i]);
        triangle.solve(x);
        std::copy(x.begin(), x.end(), at<T>(m.y.values));
    });
}

CUresult run(spsm& m, Type, Work& work) {
    return of_type(as_type(m.compute), [&]<typename T>(T) {
        if (m.C.rows == 0) return;
        Walk walk(work);
        work.reserve(Triangle<T>::bytes_for(m.A, m.opA));
        const Triangle<T> triangle(m.A, m.opA, walk);
        const Places from(m.B, m.opB, 0), to(m.C, 0, 0);
        std::vector<T> x(static_cast<size_t>(triangle.rows()));
        for (int64_t j = 0; j < m.C.columns; ++j) {
            for (int64_t i = 0; i < triangle.rows(); ++i) {
                const T right = operated(m.opB, at<T>(m.B.values)[from.of(i, j)]);
                x[static_cast<size_t>(i)] = times(value<T>(m.alpha), right);
            }
            triangle.solve(x);
            for (int64_t i = 0; i < triangle.rows(); ++i) {
                at<T>(m.C.values)[to.of(i, j)] = x[static_cast<size_t>(i)];
            }
        }
    });
}

}  // namespace maths::cusparse
