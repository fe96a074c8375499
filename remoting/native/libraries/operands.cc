#include "operands.h"

#include <cstring>
#include <utility>

namespace maths {

bool is_zero(const Scalar& scalar, Type type) {
    const uint32_t bytes = bytes_of(type), part = align_of(type);
    const bool is_float = type != kI8 && type != kI32 && type != kI64;
    for (uint32_t i = 0; i < bytes; ++i) {
        const bool holds_sign = is_float && i % part == part - 1;
        if (holds_sign ? scalar.bytes[i] & 0x7f : scalar.bytes[i]) return false;
    }
    return true;
}

void Look::refuse(Fit fit, std::string why) {
    if (fit_ != Fit::fits) return;
    fit_ = fit;
    why_ = std::move(why);
}

void Look::scalar(const char* name, Scalar& scalar, Type type) {
    const bool known = bytes_of(type) != 0;
    if (!known && fit_ == Fit::fits) fit_ = Fit::unsupported;
    const bool here = known && (!on_device_ || fetch(name, scalar, type));
    if (scalar_count_ < kMostScalars) scalars_[scalar_count_++] = {name, here && is_zero(scalar, type)};
}

bool Look::zero(const char* name) const {
    for (int i = 0; i < scalar_count_; ++i) {
        if (std::strcmp(scalars_[i].name, name) == 0) return scalars_[i].zero;
    }
    return false;
}

void Look::memory(const char* name, uint64_t& address, Type type, Extent extent, Access access) {
    if (bytes_of(type) == 0 && fit_ == Fit::fits) fit_ = Fit::unsupported;
    if (!extent.fits) fit_ = Fit::invalid, why_.clear();
    if (fit_ != Fit::fits) return;
    operand({name, address, product(extent.elements, bytes_of(type)), align_of(type), access, 0});
}

void Look::arrays(const char* name, uint64_t& address, Type type, Extent extent, int64_t count) {
    if ((bytes_of(type) == 0 || count > kMostArrays) && fit_ == Fit::fits) fit_ = Fit::unsupported;
    if (!extent.fits || count < 0) fit_ = Fit::invalid, why_.clear();
    if (fit_ != Fit::fits) return;
    const uint64_t bytes = count == 0 ? 0 : product(extent.elements, bytes_of(type));
    operand({name, address, bytes, align_of(type), Access::kChange,
             static_cast<uint64_t>(std::max<int64_t>(count, 1))});
}

}  // namespace maths
