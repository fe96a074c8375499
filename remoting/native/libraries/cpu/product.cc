// Products of matrices in all types. What BLAS has not is converted block by block and multiplied in single
// precision, small integers in double, in which their sums are exact.
#include <algorithm>
#include <vector>

#include "blas.h"
#include "cublas_cpu.h"
#include "number.h"
#include "product.h"

namespace maths {
namespace {

// So many operations between two looks whether the work was interrupted: some tenths of a second.
constexpr double kPiece = 4e9;

// The columns of C that are done at a time.
int64_t columns_of(const Product& p) {
    const double each = 2.0 * static_cast<double>(p.m) * static_cast<double>(std::max<int64_t>(p.k, 1));
    return std::max<int64_t>(1, static_cast<int64_t>(std::min(kPiece / each, 1e9)));
}

template <typename T>
void multiply_by_blas(const Product& p, const Work& work, Finish* finish) {
    const T alpha = value<T>(p.alpha), beta = value<T>(p.beta);
    const auto* a = static_cast<const T*>(p.a);
    const auto* b = static_cast<const T*>(p.b);
    auto* c = static_cast<T*>(p.c);
    // Without a product only C is scaled, and neither A nor B need be there.
    const int64_t k = alpha == T(0) ? 0 : p.k, most = columns_of(p);
    for (int64_t j = 0; j < p.n && !work.stopped(); j += most) {
        const T* from = k == 0 ? b : b + (p.op_b == 0 ? j * p.ldb : j);
        Blas<T>::gemm(kColumns, op_of(p.op_a), op_of(p.op_b), p.m, std::min(most, p.n - j), k, by(alpha), a, p.lda,
                      from, p.ldb, by(beta), c + j * p.ldc, p.ldc);
    }
    if constexpr (!kIsComplex<T>) {
        for (int64_t j = 0; j < p.n && finish && !work.stopped(); ++j) finish->column(c + j * p.ldc, 0, p.m, j);
    }
}

template <typename Sum>
Sum loaded(Type type, const void* from, int64_t i) {
    switch (type) {
        case kF16:
            return from_half(element<uint16_t>(from, i));
        case kB16:
            return from_bfloat(element<uint16_t>(from, i));
        case kI8:
            return element<int8_t>(from, i);
        case kI32:
            return static_cast<Sum>(element<int32_t>(from, i));
        default:
            return element<float>(from, i);
    }
}

// A result that 32 bits do not hold wraps, as sums of integers do.
int32_t wrapped(double value) {
    return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value)));
}

template <typename Sum>
void store(Type type, void* to, int64_t i, Sum value) {
    switch (type) {
        case kF16:
            return set_element(to, i, to_half(static_cast<float>(value)));
        case kB16:
            return set_element(to, i, to_bfloat(static_cast<float>(value)));
        case kI32:
            return set_element(to, i, wrapped(value));
        default:
            return set_element(to, i, static_cast<float>(value));
    }
}

template <typename Sum>
Sum scalar_of(const Scalar& scalar, Type type) {
    return type == kF64 ? static_cast<Sum>(value<double>(scalar)) : loaded<Sum>(type, &scalar, 0);
}

// Blocks of an operand and of sums, which fit into a core's cache.
constexpr int64_t kBlock = 256;

template <typename Sum>
class Converted {
  public:
    Converted(const Product& p, Finish* finish)
        : p_(p), finish_(finish), a_(kBlock * kBlock), b_(kBlock * kBlock), sums_(kBlock * kBlock),
          alpha_(scalar_of<Sum>(p.alpha, p.scalars)), beta_(scalar_of<Sum>(p.beta, p.scalars)) {}

    void run(const Work& work) {
        for (int64_t j = 0; j < p_.n; j += kBlock) {
            for (int64_t i = 0; i < p_.m && !work.stopped(); i += kBlock) {
                rows_ = std::min(kBlock, p_.m - i), columns_ = std::min(kBlock, p_.n - j);
                std::fill(sums_.begin(), sums_.end(), Sum(0));
                if (alpha_ != 0) add_products(i, j, work);
                put_back(i, j);
            }
        }
    }

  private:
    // The block of op(X) from (row, column), as BLAS takes it: by columns, kBlock apart, and transposed as X is.
    void fetch(std::vector<Sum>& to, const void* from, int64_t op, int64_t lead, int64_t row, int64_t column,
               int64_t rows, int64_t columns) {
        if (op != 0) std::swap(row, column), std::swap(rows, columns);
        for (int64_t j = 0; j < columns; ++j) {
            const int64_t begin = (column + j) * lead + row;
            Sum* out = to.data() + j * kBlock;
            for (int64_t i = 0; i < rows; ++i) out[i] = loaded<Sum>(p_.type, from, begin + i);
        }
    }

    void add_products(int64_t i, int64_t j, const Work& work) {
        for (int64_t l = 0; l < p_.k && !work.stopped(); l += kBlock) {
            const int64_t inner = std::min(kBlock, p_.k - l);
            fetch(a_, p_.a, p_.op_a, p_.lda, i, l, rows_, inner);
            fetch(b_, p_.b, p_.op_b, p_.ldb, l, j, inner, columns_);
            Blas<Sum>::gemm(kColumns, op_of(p_.op_a), op_of(p_.op_b), rows_, columns_, inner, Sum(1), a_.data(),
                            kBlock, b_.data(), kBlock, Sum(1), sums_.data(), kBlock);
        }
    }

    void put_back(int64_t i, int64_t j) {
        for (int64_t column = 0; column < columns_; ++column) {
            const int64_t begin = (j + column) * p_.ldc + i;
            Sum* const results = sums_.data() + column * kBlock;
            for (int64_t row = 0; row < rows_; ++row) {
                if (alpha_ != 0) results[row] *= alpha_;
                if (beta_ != 0) results[row] += beta_ * loaded<Sum>(p_.result, p_.c, begin + row);
            }
            if (finish_) finish_->column(results, i, rows_, j + column);
            for (int64_t row = 0; row < rows_; ++row) store(p_.result, p_.c, begin + row, results[row]);
        }
    }

    const Product& p_;
    Finish* const finish_;
    std::vector<Sum> a_, b_, sums_;
    const Sum alpha_, beta_;
    int64_t rows_ = 0, columns_ = 0;
};

}  // namespace

void multiply(const Product& p, const Work& work, Finish* finish) {
    if (p.m == 0 || p.n == 0) return;
    const auto by_blas = [&]<typename T>(T) { multiply_by_blas<T>(p, work, finish); };
    if (p.type == p.result && of_type(p.type, by_blas) == CUDA_SUCCESS) return;
    if (p.result == kI32) {
        Converted<double>(p, finish).run(work);
    } else {
        Converted<float>(p, finish).run(work);
    }
}

}  // namespace maths

namespace maths::cublas {
namespace {

template <typename Message>
Product product_of(const Message& m, Type type, Type result, Type scalars) {
    return {m.transa, m.transb, m.m,   m.n,  m.k,    at<void>(m.A), at<void>(m.B), at<void>(m.C),
            m.lda,    m.ldb,    m.ldc, type, result, scalars,       m.alpha,       m.beta};
}

template <typename Message>
CUresult run_strided(const Message& m, Product p, const Work& work) {
    for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
        p.a = behind(m.A, i, m.strideA, p.type);
        p.b = behind(m.B, i, m.strideB, p.type);
        p.c = behind(m.C, i, m.strideC, p.result);
        multiply(p, work);
    }
    return CUDA_SUCCESS;
}

template <typename Message>
CUresult run_batched(const Message& m, Product p, const Work& work) {
    for (int64_t i = 0; i < m.batch && m.C && !work.stopped(); ++i) {
        p.a = nth<void>(m.A, i), p.b = nth<void>(m.B, i), p.c = nth<void>(m.C, i);
        multiply(p, work);
    }
    return CUDA_SUCCESS;
}

template <typename Message>
Product typed(const Message& m) {
    const Type result = as_type(m.Ctype);
    return product_of(m, as_type(m.Atype), result, scalar_type(m.compute, result));
}

}  // namespace

CUresult run(gemm& m, Type type, Work& work) {
    return multiply(product_of(m, type, type, type), work), CUDA_SUCCESS;
}

CUresult run(gemm_strided& m, Type type, Work& work) {
    return run_strided(m, product_of(m, type, type, type), work);
}

CUresult run(gemm_batched& m, Type type, Work& work) {
    return run_batched(m, product_of(m, type, type, type), work);
}

CUresult run(gemm_ex& m, Type, Work& work) {
    return multiply(typed(m), work), CUDA_SUCCESS;
}

CUresult run(gemm_ex_strided& m, Type, Work& work) {
    return run_strided(m, typed(m), work);
}

CUresult run(gemm_ex_batched& m, Type, Work& work) {
    return run_batched(m, typed(m), work);
}

CUresult run(gemm_typed& m, Type type, Work& work) {
    return multiply(product_of(m, as_type(m.Atype), as_type(m.Ctype), type), work), CUDA_SUCCESS;
}

}  // namespace maths::cublas
