#include "sparse/compressed.h"

#include <numeric>

namespace maths::cusparse {

template <typename T>
Compressed<T>::Compressed(const Sparse& m, const char* name, int64_t op, Walk& walk)
    : rows(static_cast<int64_t>(rows_of(op, m))), offsets(static_cast<size_t>(rows) + 1) {
    std::vector<Entry> entries;
    entries.reserve(elements_of(m));
    for_entries(m, name, 0, walk, [&](int64_t row, int64_t column, int64_t place) {
        if (op != 0) std::swap(row, column);
        const T value = m.values ? operated(op, at<const T>(m.values)[place]) : T{};
        entries.push_back({row, column, value});
        ++offsets[static_cast<size_t>(row) + 1];
    });
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    columns.resize(entries.size());
    values.resize(entries.size());
    std::vector<int64_t> next(offsets.begin(), offsets.end() - 1);
    for (const Entry& entry : entries) {
        walk.step();
        const auto to = static_cast<size_t>(next[static_cast<size_t>(entry.row)]++);
        columns[to] = entry.column;
        values[to] = entry.value;
    }
}

template struct Compressed<float>;
template struct Compressed<double>;
template struct Compressed<std::complex<float>>;
template struct Compressed<std::complex<double>>;

}  // namespace maths::cusparse
