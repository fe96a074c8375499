// Numbers of the types that no processor's BLAS has: half precision, bfloat16, small integers.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>

#include "operands.h"

namespace maths {

using Number = std::complex<double>;

inline float bits_as_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline uint32_t float_as_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float from_bfloat(uint16_t bits) {
    return bits_as_float(static_cast<uint32_t>(bits) << 16);
}
// To the nearest, and to the even one of two.
inline uint16_t to_bfloat(float value) {
    const uint32_t bits = float_as_bits(value);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return static_cast<uint16_t>(is_nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Half's exponent is moved to single's by a product, which is exact and makes subnormals right too.
inline float from_half(uint16_t half) {
    const uint32_t rest = static_cast<uint32_t>(half & 0x7fff) << 13;
    const bool is_special = rest >= 0x0f800000;  // infinity, or no number
    const float value = is_special ? bits_as_float(rest | 0x7f800000) : bits_as_float(rest) * 0x1p112f;
    return bits_as_float(float_as_bits(value) | static_cast<uint32_t>(half & 0x8000) << 16);
}
// To the nearest, and to the even one of two.
inline uint16_t to_half(float value) {
    const uint32_t bits = float_as_bits(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    uint32_t half;
    if (rest > 0x7f800000) {
        half = 0x7e00;
    } else if (rest >= 0x477ff000) {
        half = 0x7c00;  // 65520 and more round to infinity
    } else if (rest < 0x38800000) {
        // A subnormal's last bit is worth 2^-24, as the last bit of single precision at 0.5.
        half = float_as_bits(bits_as_float(rest) + 0.5f) - 0x3f000000;
    } else {
        half = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
    }
    return static_cast<uint16_t>(sign | half);
}

// As elements of arrays.
struct Half {
    uint16_t bits;
    Half() = default;
    operator float() const { return from_half(bits); }
    explicit Half(double value) : bits(to_half(static_cast<float>(value))) {}
};
struct Bfloat16 {
    uint16_t bits;
    Bfloat16() = default;
    operator float() const { return from_bfloat(bits); }
    explicit Bfloat16(double value) : bits(to_bfloat(static_cast<float>(value))) {}
};

template <typename T>
T element(const void* from, int64_t i) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(from) + i * static_cast<int64_t>(sizeof(T)), sizeof value);
    return value;
}
template <typename T>
void set_element(void* to, int64_t i, T value) {
    std::memcpy(static_cast<std::byte*>(to) + i * static_cast<int64_t>(sizeof(T)), &value, sizeof value);
}

inline Number get(Type type, const void* from, int64_t i) {
    switch (type) {
        case kF32:
            return element<float>(from, i);
        case kF64:
            return element<double>(from, i);
        case kF16:
            return from_half(element<uint16_t>(from, i));
        case kB16:
            return from_bfloat(element<uint16_t>(from, i));
        case kC32:
            return element<std::complex<float>>(from, i);
        case kC64:
            return element<std::complex<double>>(from, i);
        case kI8:
            return element<int8_t>(from, i);
        case kI32:
            return element<int32_t>(from, i);
        default:
            return 0;
    }
}
inline void put(Type type, void* to, int64_t i, Number value) {
    const auto real = static_cast<float>(value.real());
    switch (type) {
        case kF32:
            return set_element(to, i, real);
        case kF64:
            return set_element(to, i, value.real());
        case kF16:
            return set_element(to, i, to_half(real));
        case kB16:
            return set_element(to, i, to_bfloat(real));
        case kC32:
            return set_element(to, i, std::complex<float>(real, static_cast<float>(value.imag())));
        case kC64:
            return set_element(to, i, value);
        case kI32:
            return set_element(to, i, static_cast<int32_t>(std::clamp<double>(value.real(), INT32_MIN, INT32_MAX)));
        default:
            return;
    }
}

}  // namespace maths
