// The older functions that the generic ones have none for: sums of sparse matrices, orders of entries.
#include <algorithm>
#include <numeric>

#include "sparse/compressed.h"
#include "sparse/sparse_cpu.h"

namespace maths::cusparse {
namespace {

// alpha A + beta B, row by row.
template <typename T>
class Sum {
  public:
    Sum(const Sparse& a, T alpha, const Sparse& b, T beta, Walk& walk)
        : a_(a, "A", 0, walk), b_(b, "B", 0, walk), alpha_(alpha), beta_(beta), walk_(walk) {}

    static uint64_t bytes_for(const Sparse& a, const Sparse& b) {
        const uint64_t both = sum(Compressed<T>::bytes_for(a, 0), Compressed<T>::bytes_for(b, 0));
        return sum(both, product(3 * sizeof(Entry), sum(elements_of(a), elements_of(b))));
    }

    // Calls `begin` with the number of entries of each row, and `body` with column and value of each, in
    // order.
    template <typename Begin, typename Body>
    void for_rows(Begin begin, Body body) {
        for (int64_t row = 0; row < a_.rows; ++row) {
            row_.clear();
            add(a_, alpha_, row), add(b_, beta_, row);
            sort(row_, walk_, [](const Entry& x, const Entry& y) { return x.column < y.column; });
            size_t count = 0;
            for (const Entry& entry : row_) {
                if (count > 0 && row_[count - 1].column == entry.column) {
                    row_[count - 1].value += entry.value;
                } else {
                    row_[count++] = entry;
                }
            }
            row_.resize(count);
            begin(row, static_cast<int64_t>(count));
            for (const Entry& entry : row_) body(entry.column, entry.value);
        }
    }

  private:
    struct Entry {
        int64_t column = 0;
        T value{};
    };

    void add(const Compressed<T>& from, T factor, int64_t row) {
        const auto at = static_cast<size_t>(row);
        for (auto k = static_cast<size_t>(from.offsets[at]); k < static_cast<size_t>(from.offsets[at + 1]);
             ++k) {
            row_.push_back({from.columns[k], times(factor, from.values[k])});
            walk_.step();
        }
        walk_.step();
    }

    const Compressed<T> a_, b_;
    const T alpha_, beta_;
    std::vector<Entry> row_;
    Walk& walk_;
};

// Of entries that a program counts by itself.
void require(const Work& work, const char* name, uint64_t address, int64_t count, uint64_t bytes,
             uint64_t align) {
    if (count == 0 || (address % align == 0 && work.reach(address, product(length(count), bytes), true)))
        return;
    work.fail(CUDA_ERROR_ILLEGAL_ADDRESS,
              std::string(name) + " has no room for " + std::to_string(count) + " entries");
}

// Rows and columns of entries, with what goes along with them.
struct Place {
    int32_t first, second, along;
};

void sort_places(std::vector<Place>& places, Walk& walk) {
    sort(places, walk, [](const Place& a, const Place& b) {
        return a.first != b.first ? a.first < b.first : a.second < b.second;
    });
}
void sort_coordinates(uint64_t first, uint64_t second, uint64_t along, int64_t count, Work& work) {
    Walk walk(work);
    work.reserve(product(2 * sizeof(Place), length(count)));
    std::vector<Place> places(static_cast<size_t>(count));
    for (size_t k = 0; k < places.size(); ++k) {
        places[k] = {at<int32_t>(first)[k], at<int32_t>(second)[k], along ? at<int32_t>(along)[k] : 0};
    }
    sort_places(places, walk);
    for (size_t k = 0; k < places.size(); ++k) {
        at<int32_t>(first)[k] = places[k].first, at<int32_t>(second)[k] = places[k].second;
        if (along) at<int32_t>(along)[k] = places[k].along;
    }
}

// Calls `body` with each line and where its entries begin and end.
template <typename Body>
void for_lines(uint64_t address, int32_t base, int64_t count, int64_t entries, const char* name, Walk& walk,
               Body body) {
    const Indices offsets(address, 0, kIndex32, base);
    int64_t end = offsets.get(0);
    if (end < 0 || end > entries) walk.fail_offset(name, 0, end, entries);
    for (int64_t line = 0; line < count; ++line) {
        const int64_t begin = end;
        end = offsets.get(line + 1);
        if (end < begin || end > entries) walk.fail_offset(name, begin, end, entries);
        body(line, begin, end);
        walk.step(end - begin + 1);
    }
}

// Within each line.
void sort_lines(uint64_t offsets, uint64_t indices, uint64_t along, int32_t base, int64_t lines,
                int64_t entries, Work& work) {
    Walk walk(work);
    work.reserve(product(3 * sizeof(Place), length(entries)));
    std::vector<Place> places;
    for_lines(offsets, base, lines, entries, "A", walk, [&](int64_t, int64_t begin, int64_t end) {
        places.clear();
        for (int64_t k = begin; k < end; ++k) {
            places.push_back({at<int32_t>(indices)[k], 0, along ? at<int32_t>(along)[k] : 0});
        }
        sort_places(places, walk);
        for (int64_t k = begin; k < end; ++k) {
            const Place& place = places[static_cast<size_t>(k - begin)];
            at<int32_t>(indices)[k] = place.first;
            if (along) at<int32_t>(along)[k] = place.along;
        }
    });
}

}  // namespace

CUresult run(geam_count& m, Type, Work& work) {
    Walk walk(work);
    work.reserve(Sum<float>::bytes_for(m.A, m.B));
    const Indices offsets = offsets_of(m.C);
    int64_t count = 0;
    if (m.C.rows > 0) offsets.put(0, 0);
    Sum<float>(m.A, 0, m.B, 0, walk)
        .for_rows([&](int64_t row, int64_t entries) { offsets.put(row + 1, count += entries); },
                  [](int64_t, float) {});
    if (!offsets.holds(count)) walk.fail_width("C", count);
    at<int32_t>(m.count)[0] = static_cast<int32_t>(count);
    return CUDA_SUCCESS;
}

CUresult run(geam& m, Type, Work& work) {
    return of_type(as_type(m.compute), [&]<typename T>(T) {
        Walk walk(work);
        work.reserve(Sum<T>::bytes_for(m.A, m.B));
        const Indices offsets = offsets_of(m.C), indices = indices_of(m.C);
        Sum<T> sum(m.A, value<T>(m.alpha), m.B, value<T>(m.beta), walk);
        int64_t count = 0;
        sum.for_rows([&](int64_t, int64_t entries) { count += entries; }, [](int64_t, T) {});
        require(work, "C.indices", m.C.indices, count, sizeof(int32_t), alignof(int32_t));
        require(work, "C.values", m.C.values, count, sizeof(T), alignof(T));
        if (!offsets.holds(count)) walk.fail_width("C", count);
        count = 0;
        if (m.C.rows > 0) offsets.put(0, 0);
        int64_t place = 0;
        sum.for_rows([&](int64_t row, int64_t entries) { offsets.put(row + 1, count += entries); },
                     [&](int64_t column, T value) {
                         indices.put(place, column);
                         at<T>(m.C.values)[place++] = value;
                     });
    });
}

CUresult run(zero_pivot& m, Type, Work& work) {
    Walk walk(work);
    const auto rows = static_cast<size_t>(height(m.A));
    work.reserve(rows);
    std::vector<char> divides(rows, m.A.diag != 0);
    for_entries(m.A, "A", 0, walk, [&](int64_t row, int64_t column, int64_t place) {
        if (row == column && get(as_type(m.A.type), at<void>(m.A.values), place) != Number(0)) {
            divides[static_cast<size_t>(row)] = true;
        }
    });
    const auto first = std::find(divides.begin(), divides.end(), false) - divides.begin();
    const int64_t found = static_cast<size_t>(first) == rows ? -1 : first / m.A.block_rows + m.A.base;
    at<int32_t>(m.position)[0] = static_cast<int32_t>(found);
    return CUDA_SUCCESS;
}

CUresult run(coo2csr& m, Type, Work& work) {
    Walk walk(work);
    work.reserve(product(sum(length(m.m), 1), sizeof(int64_t)));
    const Indices rows(m.cooRowInd, 0, kIndex32, static_cast<int32_t>(m.idxBase));
    const Indices offsets(m.csrRowPtr, 0, kIndex32, static_cast<int32_t>(m.idxBase));
    std::vector<int64_t> ends(static_cast<size_t>(m.m) + 1);
    for (int64_t k = 0; k < m.nnz; ++k) {
        ++ends[static_cast<size_t>(rows.below(m.m, k, "A", "rows", walk)) + 1];
        walk.step();
    }
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    for (int64_t i = 0; i <= m.m; ++i) offsets.put(i, ends[static_cast<size_t>(i)]);
    return CUDA_SUCCESS;
}

CUresult run(csr2coo& m, Type, Work& work) {
    Walk walk(work);
    const auto base = static_cast<int32_t>(m.idxBase);
    const Indices rows(m.cooRowInd, 0, kIndex32, base);
    for_lines(m.csrRowPtr, base, m.m, m.nnz, "A", walk, [&](int64_t row, int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) rows.put(k, row);
    });
    return CUDA_SUCCESS;
}

CUresult run(coosort_rows& m, Type, Work& work) {
    sort_coordinates(m.rows, m.columns, m.P, m.nnz, work);
    return CUDA_SUCCESS;
}
CUresult run(coosort_columns& m, Type, Work& work) {
    sort_coordinates(m.columns, m.rows, m.P, m.nnz, work);
    return CUDA_SUCCESS;
}
CUresult run(csrsort& m, Type, Work& work) {
    sort_lines(m.offsets, m.indices, m.P, m.descr.base, m.m, m.nnz, work);
    return CUDA_SUCCESS;
}
CUresult run(cscsort& m, Type, Work& work) {
    sort_lines(m.offsets, m.indices, m.P, m.descr.base, m.n, m.nnz, work);
    return CUDA_SUCCESS;
}

CUresult run(identity& m, Type, Work&) {
    std::iota(at<int32_t>(m.p), at<int32_t>(m.p) + m.n, 0);
    return CUDA_SUCCESS;
}

}  // namespace maths::cusparse
