// Sparse vectors.
#include "sparse/sparse_cpu.h"
#include "sparse/walk.h"

namespace maths::cusparse {
namespace {

// Calls `body` with the place in the dense vector and the number of each entry.
template <typename Body>
void for_entries(const Entries& v, Walk& walk, Body body) {
    const Indices indices(v.indices, 0, v.index_type, v.base);
    for (int64_t k = 0; k < v.count; ++k) {
        walk.step();
        body(indices.below(v.size, k, "X", "indices", walk), k);
    }
}

Number number_of(const Scalar& scalar, int64_t type) {
    return get(scale_of(type), scalar.bytes, 0);
}

// Of 16 bits each number is rounded once. Where beta is 1 the others stay as they are.
CUresult add_in_single(const axpby& m, double alpha, double beta, Walk& walk, Work& work) {
    const Type type = as_type(m.Y.type);
    void *const x = at<void>(m.X.values), *const y = at<void>(m.Y.values);
    work.reserve(product(length(m.Y.size), sizeof(double)));
    std::vector<double> sums(static_cast<size_t>(m.Y.size));
    for (int64_t i = 0; i < m.Y.size; ++i) {
        walk.step();
        if (beta != 0) sums[static_cast<size_t>(i)] = beta * get(type, y, i).real();
    }
    for_entries(m.X, walk, [&](int64_t place, int64_t k) {
        sums[static_cast<size_t>(place)] += alpha * get(type, x, k).real();
    });
    const auto store = [&](int64_t i) { put(type, y, i, sums[static_cast<size_t>(i)]); };
    for (int64_t i = 0; i < m.Y.size && beta != 1; ++i) {
        walk.step();
        store(i);
    }
    if (beta == 1) for_entries(m.X, walk, [&](int64_t place, int64_t) { store(place); });
    return CUDA_SUCCESS;
}

}  // namespace

CUresult run(spvv& m, Type, Work& work) {
    Number sum = 0;
    const CUresult result = of_value(m.X.type, [&]<typename T>(T*) {
        Walk walk(work);
        Computed<T> own{};
        const T *const x = at<T>(m.X.values), *const y = at<T>(m.Y.values);
        for_entries(m.X, walk, [&](int64_t place, int64_t k) {
            own += times(operated(m.op, static_cast<Computed<T>>(x[k])), static_cast<Computed<T>>(y[place]));
        });
        sum = own;
    });
    if (result == CUDA_SUCCESS) put(as_type(m.compute), at<void>(m.result), 0, sum);
    return result;
}

CUresult run(axpby& m, Type, Work& work) {
    const Type type = as_type(m.Y.type);
    const Number alpha = number_of(m.alpha, type), beta = number_of(m.beta, type);
    Walk walk(work);
    if (bytes_of(type) == 2) return add_in_single(m, alpha.real(), beta.real(), walk, work);
    void *const x = at<void>(m.X.values), *const y = at<void>(m.Y.values);
    for (int64_t i = 0; i < m.Y.size && beta != Number(1); ++i) {
        walk.step();
        put(type, y, i, beta == Number(0) ? Number(0) : times(beta, get(type, y, i)));
    }
    for_entries(m.X, walk, [&](int64_t place, int64_t k) {
        put(type, y, place, get(type, y, place) + times(alpha, get(type, x, k)));
    });
    return CUDA_SUCCESS;
}

CUresult run(gather& m, Type, Work& work) {
    return of_value(m.Y.type, [&]<typename T>(T*) {
        Walk walk(work);
        for_entries(m.X, walk,
                    [&](int64_t place, int64_t k) { at<T>(m.X.values)[k] = at<T>(m.Y.values)[place]; });
    });
}

CUresult run(scatter& m, Type, Work& work) {
    return of_value(m.Y.type, [&]<typename T>(T*) {
        Walk walk(work);
        for_entries(m.X, walk,
                    [&](int64_t place, int64_t k) { at<T>(m.Y.values)[place] = at<T>(m.X.values)[k]; });
    });
}

CUresult run(rot& m, Type, Work& work) {
    const Type type = as_type(m.Y.type);
    const Number c = number_of(m.c, type), s = number_of(m.s, type);
    Walk walk(work);
    void *const x = at<void>(m.X.values), *const y = at<void>(m.Y.values);
    for_entries(m.X, walk, [&](int64_t place, int64_t k) {
        const Number left = get(type, x, k), right = get(type, y, place);
        put(type, x, k, times(c, left) + times(s, right));
        put(type, y, place, times(c, right) - times(s, left));
    });
    return CUDA_SUCCESS;
}

}  // namespace maths::cusparse
