// cuBLASLt's products with their epilogues, and its transforms.
#include "cublasLt_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "number.h"
#include "product.h"

namespace maths::cublasLt {
namespace {

// By tanh, as cuBLASLt has it.
constexpr double kInner = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kCubic = 0.044715;

template <typename T>
T gelu(T x) {
    const T inner = static_cast<T>(kInner) * (x + static_cast<T>(kCubic) * x * x * x);
    return x / 2 * (1 + std::tanh(inner));
}
template <typename T>
T gelu_slope(T x) {
    const T inner = static_cast<T>(kInner) * (x + static_cast<T>(kCubic) * x * x * x), tanh = std::tanh(inner);
    const T slope = static_cast<T>(kInner) * (1 + 3 * static_cast<T>(kCubic) * x * x);
    return (1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * slope;
}

// The epilogue of one product of the batch.
class Epilogued final : public Finish {
  public:
    Epilogued(const matmul& m, int64_t i)
        : m_(m),
          bias_type_(as_type(m.biasType)),
          kept_type_(as_type(m.auxiliaryType)),
          bias_(behind(m.bias, i, m.strideBias, bias_type_)),
          auxiliary_(part(m.auxiliary, i)),
          kept_(part(m.kept, i)),
          sums_(static_cast<size_t>((m.epilogue & kBiasGradient) != 0 ? m.m : 0)) {}

    void column(float* values, int64_t row, int64_t rows, int64_t column) override {
        finish(values, row, rows, column);
    }
    void column(double* values, int64_t row, int64_t rows, int64_t column) override {
        finish(values, row, rows, column);
    }
    const std::vector<double>& sums() const { return sums_; }

  private:
    std::byte* part(uint64_t address, int64_t i) const {
        return keeps_bits(m_.epilogue) ? behind(address, i, m_.strideAuxiliary / 8, kI8)
                                       : behind(address, i, m_.strideAuxiliary, kept_type_);
    }

    template <typename T>
    void finish(T* values, int64_t row, int64_t rows, int64_t column) {
        for (int64_t i = 0; i < rows && bias_; ++i) {
            // A result by rows is computed transposed.
            values[i] += static_cast<T>(get(bias_type_, bias_, m_.orderD == 0 ? row + i : column).real());
        }
        const int64_t begin = column * m_.leadAuxiliary + row;
        if ((m_.epilogue & kRelu) != 0) {
            if (kept_) keep_bits(values, rows, begin);
            for (int64_t i = 0; i < rows; ++i) values[i] = values[i] < 0 ? T(0) : values[i];
        } else if ((m_.epilogue & kGelu) != 0) {
            for (int64_t i = 0; i < rows && kept_; ++i) put(kept_type_, kept_, begin + i, static_cast<double>(values[i]));
            for (int64_t i = 0; i < rows; ++i) values[i] = gelu(values[i]);
        } else if ((m_.epilogue & kReluBackward) != 0) {
            for (int64_t i = 0; i < rows; ++i) {
                const auto bits = std::to_integer<unsigned>(auxiliary_[(begin + i) / 8]);
                if ((bits >> (begin + i) % 8 & 1) == 0) values[i] = 0;
            }
        } else if ((m_.epilogue & kGeluBackward) != 0) {
            for (int64_t i = 0; i < rows; ++i) {
                values[i] *= gelu_slope(static_cast<T>(get(kept_type_, auxiliary_, begin + i).real()));
            }
        }
        for (int64_t i = 0; i < rows && !sums_.empty(); ++i) {
            sums_[static_cast<size_t>(m_.orderD == 0 ? row + i : column)] += static_cast<double>(values[i]);
        }
    }

    // `begin` and what lies between columns are multiples of 8 bits.
    template <typename T>
    void keep_bits(const T* values, int64_t rows, int64_t begin) {
        for (int64_t i = 0; i < rows; i += 8) {
            unsigned bits = 0;
            for (int64_t bit = 0; bit < std::min<int64_t>(8, rows - i); ++bit) bits |= (values[i + bit] > 0 ? 1u : 0u) << bit;
            kept_[(begin + i) / 8] = static_cast<std::byte>(bits);
        }
    }

    const matmul& m_;
    const Type bias_type_, kept_type_;
    const std::byte *const bias_, *const auxiliary_;
    std::byte* const kept_;
    std::vector<double> sums_;
};

// A place in a matrix of an order.
int64_t place(int64_t order, int64_t lead, int64_t row, int64_t column) {
    return order == 0 ? column * lead + row : row * lead + column;
}

// So many sums at a time: they lie in memory that no slice is charged for.
constexpr int64_t kSumsAtOnce = 1 << 16;

// Sums along k, from the one that is `first` on: of the rows of op(A), or the columns of op(B).
std::vector<double> sums_along(const matmul& m, int64_t i, int64_t first, int64_t count, const Work& work) {
    const bool of_a = m.epilogue == kGradientOfA;
    const Type type = as_type(of_a ? m.Atype : m.Btype);
    const std::byte* from = of_a ? behind(m.A, i, m.strideA, type) : behind(m.B, i, m.strideB, type);
    const int64_t order = of_a ? m.orderA : m.orderB, lead = of_a ? m.lda : m.ldb;
    const bool along_rows = of_a == ((of_a ? m.transa : m.transb) != 0);
    std::vector<double> sums(static_cast<size_t>(count));
    for (int64_t l = 0; l < m.k && from && !work.stopped(); ++l) {
        for (int64_t j = 0; j < count; ++j) {
            const int64_t at = along_rows ? place(order, lead, l, first + j) : place(order, lead, first + j, l);
            sums[static_cast<size_t>(j)] += get(type, from, at).real();
        }
    }
    return sums;
}

void store_gradient(const matmul& m, int64_t i, int64_t first, const std::vector<double>& sums) {
    const Type type = as_type(m.biasType);
    std::byte* to = behind(m.gradient, i, m.strideBias, type);
    for (size_t j = 0; j < sums.size() && to; ++j) put(type, to, first + static_cast<int64_t>(j), sums[j]);
}

// Of an operand: what goes in is all there before the product is.
void store_gradient_of_operand(const matmul& m, int64_t i, const Work& work) {
    const int64_t all = m.epilogue == kGradientOfA ? m.m : m.n;
    for (int64_t first = 0; first < all && !work.stopped(); first += kSumsAtOnce) {
        store_gradient(m, i, first, sums_along(m, i, first, std::min(kSumsAtOnce, all - first), work));
    }
}

// The result begins as C, so that the product works in place.
void copy_c(const matmul& m, const std::byte* c, std::byte* d) {
    if (!c || !d || (c == d && m.ldc == m.ldd)) return;
    const uint64_t bytes = bytes_of(as_type(m.Ctype));
    const auto rows = static_cast<uint64_t>(m.orderD == 0 ? m.m : m.n);
    const auto columns = static_cast<uint64_t>(m.orderD == 0 ? m.n : m.m);
    for (uint64_t j = 0; j < columns; ++j) {
        std::memmove(d + j * static_cast<uint64_t>(m.ldd) * bytes, c + j * static_cast<uint64_t>(m.ldc) * bytes, rows * bytes);
    }
}

// By columns: what lies by rows is the transpose of what is meant, and a result by rows is a product of transposes.
Product product_of(const matmul& m, int64_t i) {
    const Type type = as_type(m.Atype), result = as_type(m.Ctype);
    const auto operation = [&](int64_t op, int64_t order) { return order == m.orderD ? op : op == 0 ? 1 : 0; };
    Product p{operation(m.transa, m.orderA),
              operation(m.transb, m.orderB),
              m.m,
              m.n,
              m.k,
              behind(m.A, i, m.strideA, type),
              behind(m.B, i, m.strideB, type),
              behind(m.D, i, m.strideD, result),
              m.lda,
              m.ldb,
              m.ldd,
              type,
              result,
              as_type(m.scaleType),
              m.alpha,
              m.beta};
    if (m.orderD == 1) {
        std::swap(p.op_a, p.op_b), std::swap(p.m, p.n), std::swap(p.a, p.b), std::swap(p.lda, p.ldb);
    }
    return p;
}

}  // namespace

CUresult run(matmul& m, Type, Work& work) {
    for (int64_t i = 0; i < m.batch && !work.stopped(); ++i) {
        if (m.epilogue == kGradientOfA || m.epilogue == kGradientOfB) store_gradient_of_operand(m, i, work);
        const Product p = product_of(m, i);
        if (p.m != 0 && p.n != 0) copy_c(m, behind(m.C, i, m.strideC, p.result), static_cast<std::byte*>(p.c));
        if (m.epilogue == kNothing || m.epilogue == kGradientOfA || m.epilogue == kGradientOfB) {
            multiply(p, work);
            continue;
        }
        Epilogued epilogue(m, i);
        multiply(p, work, &epilogue);
        store_gradient(m, i, 0, epilogue.sums());
    }
    return CUDA_SUCCESS;
}

CUresult run(transform& m, Type, Work& work) {
    const Type a_type = as_type(m.Atype), b_type = as_type(m.Btype), c_type = as_type(m.Ctype);
    const Type scalars = as_type(m.scaleType);
    const Number alpha = get(scalars, m.alpha.bytes, 0), beta = get(scalars, m.beta.bytes, 0);
    const auto element = [](const std::byte* from, Type type, int64_t op, int64_t order, int64_t lead, int64_t i, int64_t j) {
        const Number value = get(type, from, op == 0 ? place(order, lead, i, j) : place(order, lead, j, i));
        return op == 2 ? std::conj(value) : value;
    };
    constexpr int64_t kPiece = 1 << 20;  // of rows, between two looks whether to stop
    for (int64_t batch = 0; batch < m.batch && m.C && !work.stopped(); ++batch) {
        const std::byte* a = behind(m.A, batch, m.strideA, a_type);
        const std::byte* b = behind(m.B, batch, m.strideB, b_type);
        std::byte* c = behind(m.C, batch, m.strideC, c_type);
        for (int64_t j = 0; j < m.n; ++j) {
            for (int64_t i = 0; i < m.m; ++i) {
                if (i % kPiece == 0 && work.stopped()) return CUDA_SUCCESS;
                Number sum = 0;
                if (a) sum += alpha * element(a, a_type, m.transa, m.orderA, m.lda, i, j);
                if (b) sum += beta * element(b, b_type, m.transb, m.orderB, m.ldb, i, j);
                put(c_type, c, place(m.orderC, m.ldc, i, j), sum);
            }
        }
    }
    return CUDA_SUCCESS;
}

CUresult run_function(uint16_t function, void* arguments, Work& work) {
    switch (function) {
#include "cublasLt_cpu.inc"
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

}  // namespace maths::cublasLt
