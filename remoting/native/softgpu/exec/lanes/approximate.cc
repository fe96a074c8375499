// The .approx functions. The hardware's are tables; these are series in double, so that they vectorise and are
// right to the last place of f32 or nearly so, well inside the error that PTX allows.
#include "exec/lanes/floats.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

constexpr f64 kMagic = 0x1.8p52;  // added, leaves the nearest integer in the low bits of the sum

// 2^x for |x| <= 1000.
SOFTGPU_INLINE f64 exp2_of(f64 x) {
    const f64 shifted = x + kMagic;
    const f64 f = (x - (shifted - kMagic)) * 0.693147180559945309417;
    f64 p = 1.0 / 40320;
    p = p * f + 1.0 / 5040;
    p = p * f + 1.0 / 720;
    p = p * f + 1.0 / 120;
    p = p * f + 1.0 / 24;
    p = p * f + 1.0 / 6;
    p = p * f + 0.5;
    p = p * f + 1.0;
    p = p * f + 1.0;
    const u64 power = (bits_as<u64>(shifted) + 1023) << 52;
    return p * bits_as<f64>(power);
}
SOFTGPU_INLINE f32 exp2_approx(f32 x) {
    const f64 wide = x < -300.0f ? -300.0 : x > 300.0f ? 300.0 : f64(x);
    const f32 power = f32(exp2_of(wide));
    return is_nan(x) ? x : power;
}

// log2 of a positive normal double.
SOFTGPU_INLINE f64 log2_of(f64 x) {
    const u64 bits = bits_as<u64>(x);
    // The mantissa is taken into [sqrt(1/2), sqrt(2)).
    const u64 offset = bits - 0x3fe6a09e667f3bcdu;
    const s64 exponent = s64(offset) >> 52;
    const f64 m = bits_as<f64>(bits - (u64(exponent) << 52));
    const f64 s = (m - 1.0) / (m + 1.0), z = s * s;
    f64 p = 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    p = p * z + 1.0;
    return f64(exponent) + 2.88539008177792681472 * s * p;
}
SOFTGPU_INLINE f32 log2_approx(f32 x) {
    const f32 log = f32(log2_of(f64(x)));
    const f32 infinity = __builtin_inff();
    const f32 special = x == 0 ? -infinity : x == infinity ? infinity : bits_as<f32>(kNan32);
    return x > 0 && x < infinity ? log : special;
}

// The angle's remainder by pi/2 in r, the quarter in the result. Past 2^31 the hardware's answer means nothing
// either; there the quarter wraps.
SOFTGPU_INLINE u64 quarter(f64 x, f64& r) {
    const f64 shifted = x * 0.636619772367581343076 + kMagic;
    const f64 q = shifted - kMagic;
    r = (x - q * 0x1.921fb544p+0) - q * 0x1.0b4611a626331p-34;
    return bits_as<u64>(shifted);
}
SOFTGPU_INLINE f64 sine_series(f64 r) {
    const f64 z = r * r;
    f64 p = 1.0 / 6227020800.0;
    p = p * z - 1.0 / 39916800;
    p = p * z + 1.0 / 362880;
    p = p * z - 1.0 / 5040;
    p = p * z + 1.0 / 120;
    p = p * z - 1.0 / 6;
    return r + r * z * p;
}
SOFTGPU_INLINE f64 cosine_series(f64 r) {
    const f64 z = r * r;
    f64 p = -1.0 / 87178291200.0;
    p = p * z + 1.0 / 479001600;
    p = p * z - 1.0 / 3628800;
    p = p * z + 1.0 / 40320;
    p = p * z - 1.0 / 720;
    p = p * z + 1.0 / 24;
    p = p * z - 0.5;
    return 1.0 + z * p;
}
template <u64 turn>
SOFTGPU_INLINE f32 sine_approx(f32 x) {
    const f32 size = bits_as<f32>(bits_as<u32>(x) & 0x7fffffffu);
    const f64 angle = size < 0x1p31f ? f64(x) : 0.0;
    f64 r;
    const u64 q = quarter(angle, r) + turn;
    const f64 s = sine_series(r), c = cosine_series(r);
    const f64 value = (q & 1) ? c : s;
    const f32 signed_value = f32((q & 2) ? -value : value);
    return size < __builtin_inff() ? signed_value : bits_as<f32>(kNan32);
}

SOFTGPU_INLINE f32 tanh_approx(f32 x) {
    const f64 wide = x > 20.0f ? 20.0 : x < -20.0f ? -20.0 : f64(x);
    const f64 e = exp2_of(wide * 2.88539008177792681472);
    const f64 size = wide < 0 ? -wide : wide;
    // Near zero the quotient cancels; the series does not.
    const f64 z = wide * wide;
    const f64 small = wide * (1.0 + z * (-1.0 / 3 + z * (2.0 / 15 + z * (-17.0 / 315))));
    const f64 value = size < 0.03 ? small : (e - 1.0) / (e + 1.0);
    return is_nan(x) ? x : f32(value);
}

#define BOTH(NAME, FUNCTION)                                                            \
    {NAME ".f32", lanes<[](f32 a) { return out<false, false>(FUNCTION(a)); }>},         \
    {NAME ".ftz.f32", lanes<[](f32 a) { return out<true, false>(FUNCTION(flush(a))); }>},

const HandlerEntry kEntries[] = {
    BOTH("ex2", exp2_approx) BOTH("lg2", log2_approx) BOTH("sin", sine_approx<0>) BOTH("cos", sine_approx<1>)
    {"tanh.f32", lanes<[](f32 a) { return out<false, false>(tanh_approx(a)); }>},
    {"ex2.f16", lanes<[](f16 a) { return to_half(exp2_approx(widen(a))); }>},
    {"tanh.f16", lanes<[](f16 a) { return to_half(tanh_approx(widen(a))); }>},
    {"ex2.ftz.bf16", lanes<[](bf16 a) { return to_bfloat(exp2_approx(widen(a))); }>},
    {"tanh.bf16", lanes<[](bf16 a) { return to_bfloat(tanh_approx(widen(a))); }>},
};

}  // namespace

extern const HandlerTable kApproximateHandlers;
const HandlerTable kApproximateHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
