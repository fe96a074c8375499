// What PTX says of floats and C++ does not: flushed denormals, saturation, one NaN.
#pragma once

#include "exec/lanes/lanes.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

constexpr u32 kNan32 = 0x7fffffffu;

SOFTGPU_INLINE bool is_nan(f32 x) { return x != x; }
SOFTGPU_INLINE bool is_nan(f64 x) { return x != x; }

// Every f32 result that is no number is this one; f64 keeps what the host gives, as the hardware does.
SOFTGPU_INLINE f32 one_nan(f32 x) { return is_nan(x) ? bits_as<f32>(kNan32) : x; }
SOFTGPU_INLINE f64 one_nan(f64 x) { return x; }

SOFTGPU_INLINE f32 flush(f32 x) {
    const u32 bits = bits_as<u32>(x);
    return (bits & 0x7f800000u) == 0 ? bits_as<f32>(bits & 0x80000000u) : x;
}
template <bool ftz, class T>
SOFTGPU_INLINE T in(T x) {
    if constexpr (ftz) return flush(x);
    return x;
}
template <bool ftz, bool sat, class T>
SOFTGPU_INLINE T out(T x) {
    if constexpr (ftz) x = flush(x);
    if constexpr (sat) return x > T(0) ? (x < T(1) ? x : T(1)) : T(0);  // NaN becomes +0
    return one_nan(x);
}

// A NaN gives way to the other operand, and -0 is less than +0.
SOFTGPU_INLINE f32 least(f32 a, f32 b) {
    const f32 equal = bits_as<f32>(bits_as<u32>(a) | bits_as<u32>(b));
    const f32 chosen = a == b ? equal : b < a ? b : a;
    return is_nan(a) ? one_nan(b) : is_nan(b) ? a : chosen;
}
SOFTGPU_INLINE f32 most(f32 a, f32 b) {
    const f32 equal = bits_as<f32>(bits_as<u32>(a) & bits_as<u32>(b));
    const f32 chosen = a == b ? equal : a < b ? b : a;
    return is_nan(a) ? one_nan(b) : is_nan(b) ? a : chosen;
}
SOFTGPU_INLINE f64 least(f64 a, f64 b) {
    const f64 equal = bits_as<f64>(bits_as<u64>(a) | bits_as<u64>(b));
    const f64 chosen = a == b ? equal : b < a ? b : a;
    return is_nan(a) ? b : is_nan(b) ? a : chosen;
}
SOFTGPU_INLINE f64 most(f64 a, f64 b) {
    const f64 equal = bits_as<f64>(bits_as<u64>(a) & bits_as<u64>(b));
    const f64 chosen = a == b ? equal : a < b ? b : a;
    return is_nan(a) ? b : is_nan(b) ? a : chosen;
}

// Half precision, by integer arithmetic that vectorises everywhere. Exact; to_half rounds to nearest even.
SOFTGPU_INLINE f32 widen(f16 h) {
    const u32 sign = u32(h.bits & 0x8000) << 16, rest = u32(h.bits & 0x7fff) << 13;
    // A denormal half is a multiple of 2^-24.
    const f32 small = f32(s32(h.bits & 0x3ff)) * 0x1p-24f;
    const u32 normal = rest + ((127 - 15) << 23), special = rest | 0x7f800000u;
    const u32 exponent = h.bits & 0x7c00;
    const u32 bits = exponent == 0 ? bits_as<u32>(small) : exponent == 0x7c00 ? special : normal;
    return bits_as<f32>(bits | sign);
}
SOFTGPU_INLINE f32 widen(bf16 h) { return bits_as<f32>(u32(h.bits) << 16); }

SOFTGPU_INLINE f16 to_half(f64 x) {
    const u64 bits = bits_as<u64>(x);
    const u16 sign = u16(bits >> 48 & 0x8000);
    const f64 size = bits_as<f64>(bits & ~(u64(1) << 63));
    // Adding a power of two whose last place is the half's last place rounds there, to even.
    const s64 exponent = s64(bits >> 52 & 0x7ff) - 1023;
    const s64 scale = (exponent < -14 ? -14 : exponent) + 42;  // 52 bits of double, 10 of half
    const f64 magic = bits_as<f64>(u64((scale > 1000 ? 1000 : scale) + 1023) << 52);
    const f64 rounded = (size + magic) - magic;
    const u64 rounded_bits = bits_as<u64>(rounded);
    const s64 power = s64(rounded_bits >> 52) - 1023;
    const u32 normal = u32((power + 15) << 10) | u32(rounded_bits >> 42 & 0x3ff);
    const u32 denormal = u32(s32(rounded * 0x1p24));
    u32 half = power < -14 ? denormal : normal;
    half = size >= 65520.0 ? 0x7c00u : half;
    half = is_nan(x) ? 0x7fffu : half | sign;
    return f16{u16(half)};
}

SOFTGPU_INLINE bf16 to_bfloat(f32 x) {
    const u32 bits = bits_as<u32>(x);
    const u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return bf16{u16(is_nan(x) ? 0x7fff : rounded)};
}

}  // namespace
}  // namespace softgpu::SOFTGPU_ISA
