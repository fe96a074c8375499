// The extents of operands (libraries/extents.h) for a test in Python: each answers whether the sizes go together, and
// puts the elements into `elements`.
#include "extents.h"

using namespace maths;

namespace {

int answer(Extent extent, uint64_t* elements) {
    *elements = extent.elements;
    return extent.fits;
}

}  // namespace

#define EXTENT extern "C" __attribute__((visibility("default"))) int

EXTENT extent_vector(int64_t n, int64_t step, uint64_t* elements) {
    return answer(vector(n, step), elements);
}
EXTENT extent_spread(int64_t n, int64_t step, uint64_t* elements) {
    return answer(spread(n, step), elements);
}
EXTENT extent_matrix(int64_t rows, int64_t columns, int64_t lead, uint64_t* elements) {
    return answer(matrix(rows, columns, lead), elements);
}
EXTENT extent_packed(int64_t n, uint64_t* elements) {
    return answer(packed(n), elements);
}
EXTENT extent_strided(int64_t rows, int64_t columns, int64_t lead, int64_t stride, int64_t count, uint64_t* elements) {
    return answer(strided(matrix(rows, columns, lead), stride, count), elements);
}
EXTENT extent_each(int64_t n, int64_t count, uint64_t* elements) {
    return answer(each(n, count), elements);
}
EXTENT extent_plus(int64_t a, int64_t b, int64_t c, uint64_t* sum) {
    *sum = static_cast<uint64_t>(plus(a, b, c));
    return 1;
}
