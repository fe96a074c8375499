// cuBLASLt's products: what an epilogue has to do with, and what can be asked for.
#pragma once

#include "operands.h"

namespace maths::cublasLt {

// The bits of cublasLtEpilogue_t.
enum Epilogue : int64_t {
    kNothing = 1,
    kRelu = 2,
    kBias = 4,
    kReluBackward = 8,
    kBiasGradient = 16,  // of the result, by rows
    kGelu = 32,
    kGeluBackward = 64,
    kAuxiliary = 128,  // kept by the forward pass for the backward one
    kGradientOfA = 256,
    kGradientOfB = 512,
};

constexpr bool is_epilogue(int64_t epilogue) {
    switch (epilogue) {
        case kNothing:
        case kBias:
        case kRelu:
        case kRelu | kBias:
        case kRelu | kAuxiliary:
        case kRelu | kAuxiliary | kBias:
        case kReluBackward | kAuxiliary:
        case kReluBackward | kAuxiliary | kBiasGradient:
        case kGelu:
        case kGelu | kBias:
        case kGelu | kAuxiliary:
        case kGelu | kAuxiliary | kBias:
        case kGeluBackward | kAuxiliary:
        case kGeluBackward | kAuxiliary | kBiasGradient:
        case kGradientOfA:
        case kGradientOfB:
            return true;
        default:
            return false;
    }
}
constexpr bool is_backward(int64_t epilogue) {
    return (epilogue & (kReluBackward | kGeluBackward)) != 0;
}
constexpr bool gives_gradient(int64_t epilogue) {
    return (epilogue & (kBiasGradient | kGradientOfA | kGradientOfB)) != 0;
}
// What is kept of ReLU is a bit for each element.
constexpr bool keeps_bits(int64_t epilogue) {
    return (epilogue & (kRelu | kReluBackward)) != 0;
}

// A bias has an element for each row of the result, and so has its gradient, but for that of B.
constexpr Extent bias_extent(int64_t epilogue, int64_t m, int64_t n, int64_t stride, int64_t batch) {
    return strided(exactly(epilogue == kGradientOfB ? n : m), stride, batch);
}
constexpr Extent bias_read(int64_t epilogue, int64_t m, int64_t n, int64_t stride, int64_t batch) {
    return (epilogue & kBias) != 0 ? bias_extent(epilogue, m, n, stride, batch) : Extent{true, 0};
}
constexpr Extent gradient_written(int64_t epilogue, int64_t m, int64_t n, int64_t stride, int64_t batch) {
    return gives_gradient(epilogue) ? bias_extent(epilogue, m, n, stride, batch) : Extent{true, 0};
}

// By columns, as the result; `lead` and `stride` count bits where bits are kept.
constexpr Extent auxiliary_extent(int64_t epilogue, int64_t m, int64_t n, int64_t lead, int64_t stride,
                                  int64_t batch) {
    if (!keeps_bits(epilogue)) return strided(matrix(m, n, lead), stride, batch);
    constexpr int64_t kTogether = 128;
    const bool fits = m >= 0 && lead >= m && lead % kTogether == 0 && stride % kTogether == 0;
    const Extent bytes = strided(matrix(m / 8 + (m % 8 != 0), n, lead / 8), stride / 8, batch);
    return {fits && bytes.fits, bytes.elements};
}
constexpr Extent auxiliary_read(int64_t epilogue, int64_t m, int64_t n, int64_t lead, int64_t stride,
                                int64_t batch) {
    return is_backward(epilogue) ? auxiliary_extent(epilogue, m, n, lead, stride, batch) : Extent{true, 0};
}
constexpr Extent auxiliary_written(int64_t epilogue, int64_t m, int64_t n, int64_t lead, int64_t stride,
                                   int64_t batch) {
    const bool is_kept = (epilogue & kAuxiliary) != 0 && !is_backward(epilogue);
    return is_kept ? auxiliary_extent(epilogue, m, n, lead, stride, batch) : Extent{true, 0};
}
// Of what is kept of an element.
constexpr Type auxiliary_type(int64_t epilogue, int64_t type) {
    return keeps_bits(epilogue) ? kI8 : as_type(type);
}

constexpr bool is_real(int64_t type) {
    return type == kF32 || type == kF64 || type == kF16 || type == kB16;
}
// An epilogue works on real numbers; what it keeps lies by columns, as the result has to.
constexpr bool epilogue_supported(int64_t epilogue, int64_t result, int64_t order, int64_t bias,
                                  int64_t auxiliary) {
    if (epilogue == kNothing) return true;
    if (!is_epilogue(epilogue) || !is_real(result) || !is_real(bias) || !is_real(auxiliary)) return false;
    return (epilogue & kAuxiliary) == 0 || order == 0;
}
// The gradient of a bias that comes with a product is summed by a software GPU as the product's columns come,
// in memory that no slice is charged for: so many rows at most.
inline constexpr int64_t kMostSums = 1 << 20;
inline void limit_sums(Look& look, int64_t epilogue, int64_t m) {
    if ((epilogue & kBiasGradient) == 0 || m <= kMostSums || look.end().threads == 0) return;
    look.refuse(Fit::unsupported, "it sums gradients of a bias of " + std::to_string(m) +
                                      " numbers; a software GPU does " + std::to_string(kMostSums) +
                                      ": compute them by a call of their own, or take a slice of a GPU");
}
// A factor in another order than the result's is transposed once more; one that is conjugated alone BLAS does
// not know.
constexpr bool orders_supported(int64_t operation, int64_t order, int64_t result, int64_t type) {
    return !(operation == 2 && order != result && is_complex(type));
}

// Sums of two matrices whose numbers are all real, or all complex.
constexpr bool transform_types(int64_t a, int64_t b, int64_t c, int64_t scalars) {
    const auto fits = [&](int64_t type) { return is_number(type) && is_complex(type) == is_complex(c); };
    const bool scalars_fit = scalars == kF32 || scalars == kF64 || scalars == kC32 || scalars == kC64;
    return fits(a) && fits(b) && fits(c) && scalars_fit && is_complex(scalars) == is_complex(c);
}

}  // namespace maths::cublasLt
