// Products of matrices in all types.
#pragma once

#include "work.h"

namespace maths {

// One product of a batch: by columns, of types that product_types knows.
struct Product {
    int64_t op_a, op_b, m, n, k;
    const void *a, *b;
    void* c;
    int64_t lda, ldb, ldc;
    Type type, result, scalars;
    const Scalar &alpha, &beta;
};

// What becomes of real results before they are stored: of `rows` of them in a column, from `row` on, which is a multiple of 8.
class Finish {
  public:
    virtual ~Finish() = default;
    virtual void column(float* values, int64_t row, int64_t rows, int64_t column) = 0;
    virtual void column(double* values, int64_t row, int64_t rows, int64_t column) = 0;
};

void multiply(const Product& product, const Work& work, Finish* finish = nullptr);

// The i-th of operands that lie `stride` elements apart; null where none is looked at.
inline std::byte* behind(uint64_t address, int64_t i, int64_t stride, Type type) {
    const uint64_t apart = static_cast<uint64_t>(i) * static_cast<uint64_t>(stride) * bytes_of(type);
    return address ? at<std::byte>(address + apart) : nullptr;
}

}  // namespace maths
