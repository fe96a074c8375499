// Products of two sparse matrices, row by row. How many entries one has is asked first.
#include <algorithm>

#include "sparse/compressed.h"
#include "sparse/sparse_cpu.h"

namespace maths::cusparse {
namespace {

// Rows of A B. The columns of B that have entries are numbered, so that a row takes no more memory than B
// has.
template <typename T>
class Product {
  public:
    Product(const Sparse& a, const Sparse& b, Walk& walk)
        : a_(a, "A", 0, walk), b_(b, "B", 0, walk), columns_(b_.columns), walk_(walk) {
        sort(columns_, walk_);
        columns_.erase(std::unique(columns_.begin(), columns_.end()), columns_.end());
        for (int64_t& column : b_.columns) {
            column = std::lower_bound(columns_.begin(), columns_.end(), column) - columns_.begin();
            walk_.step();
        }
        is_there_.resize(columns_.size());
        sums_.resize(columns_.size());
    }

    static uint64_t bytes_for(const Sparse& a, const Sparse& b) {
        constexpr uint64_t kColumn = 3 * sizeof(int64_t) + sizeof(T) + 3 * sizeof(size_t);
        const uint64_t both = sum(Compressed<T>::bytes_for(a, 0), Compressed<T>::bytes_for(b, 0));
        return sum(both, product(elements_of(b), kColumn));
    }

    // Calls `begin` with the number of entries of each row, and `body` with column and value of each, in
    // order.
    template <typename Begin, typename Body>
    void for_rows(Begin begin, Body body) {
        for (int64_t row = 0; row < a_.rows; ++row) {
            sum_row(static_cast<size_t>(row));
            begin(row, static_cast<int64_t>(found_.size()));
            for (const size_t place : found_) {
                body(columns_[place], sums_[place]);
                is_there_[place] = false, sums_[place] = T{};
            }
            walk_.step();
        }
    }

  private:
    void sum_row(size_t row) {
        found_.clear();
        for (auto k = static_cast<size_t>(a_.offsets[row]); k < static_cast<size_t>(a_.offsets[row + 1]);
             ++k) {
            const auto inner = static_cast<size_t>(a_.columns[k]);
            const auto first = static_cast<size_t>(b_.offsets[inner]),
                       end = static_cast<size_t>(b_.offsets[inner + 1]);
            for (size_t l = first; l < end; ++l) {
                const auto place = static_cast<size_t>(b_.columns[l]);
                if (!is_there_[place]) found_.push_back(place);
                is_there_[place] = true;
                sums_[place] += times(a_.values[k], b_.values[l]);
            }
            walk_.step(static_cast<int64_t>(end - first) + 1);
        }
        sort(found_, walk_);
    }

    const Compressed<T> a_;
    Compressed<T> b_;
    std::vector<int64_t> columns_;
    std::vector<bool> is_there_;
    std::vector<T> sums_;
    std::vector<size_t> found_;
    Walk& walk_;
};

}  // namespace

CUresult run(spgemm_count& m, Type, Work& work) {
    int64_t count = 0;
    const CUresult result = of_type(as_type(m.compute), [&]<typename T>(T) {
        Walk walk(work);
        work.reserve(Product<T>::bytes_for(m.A, m.B));
        const Indices offsets = offsets_of(m.C);
        const bool has_offsets = m.C.offsets != 0;
        if (m.C.rows > 0 && has_offsets) offsets.put(0, 0);
        const auto begin = [&](int64_t row, int64_t entries) {
            count += entries;
            if (has_offsets) offsets.put(row + 1, count);
        };
        Product<T>(m.A, m.B, walk).for_rows(begin, [](int64_t, T) {});
        if (!offsets.holds(count)) walk.fail_width("C", count);
    });
    if (result == CUDA_SUCCESS) put_count(m.count, count);
    return result;
}

// The product may be another by now than the one whose entries were counted.
CUresult run(spgemm& m, Type, Work& work) {
    const Type type = as_type(m.compute);
    if (!is_zero(m.beta, type)) work.fail(CUDA_ERROR_NOT_SUPPORTED, "with beta it is not done here");
    return of_type(type, [&]<typename T>(T) {
        Walk walk(work);
        work.reserve(Product<T>::bytes_for(m.A, m.B));
        const Indices offsets = offsets_of(m.C), indices = indices_of(m.C);
        const T alpha = value<T>(m.alpha);
        int64_t count = 0;
        if (m.C.rows > 0) offsets.put(0, 0);
        Product<T>(m.A, m.B, walk)
            .for_rows(
                [&](int64_t row, int64_t entries) {
                    if (entries > m.C.entries - count) walk.fail_room("C", m.C.entries);
                    offsets.put(row + 1, count + entries);
                },
                [&](int64_t column, T sum) {
                    indices.put(count, column);
                    at<T>(m.C.values)[count++] = times(alpha, sum);
                });
    });
}

}  // namespace maths::cusparse
