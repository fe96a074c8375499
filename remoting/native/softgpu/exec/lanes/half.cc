// Arithmetic of f16, bf16 and their pairs: computed wider, rounded once.
#include "exec/lanes/floats.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

SOFTGPU_INLINE f16 round_to(f64 x, f16) { return to_half(x); }
// As to_half does it. By way of f32 small products would be rounded twice.
SOFTGPU_INLINE bf16 round_to(f64 x, bf16) {
    const u64 bits = bits_as<u64>(x);
    const f64 size = bits_as<f64>(bits & ~(u64(1) << 63));
    const s64 exponent = s64(bits >> 52 & 0x7ff) - 1023;
    const s64 scale = (exponent < -126 ? -126 : exponent) + 45;  // 52 bits of double, 7 of bf16
    const f64 magic = bits_as<f64>(u64((scale > 1000 ? 1000 : scale) + 1023) << 52);
    const f64 rounded = (size + magic) - magic;
    const u64 rounded_bits = bits_as<u64>(rounded);
    const s64 power = s64(rounded_bits >> 52) - 1023;
    const u32 normal = u32((power + 127) << 7) | u32(rounded_bits >> 45 & 0x7f);
    const u32 denormal = u32(s32(power < -126 ? rounded * 0x1p133 : 0.0));
    u32 code = power < -126 ? denormal : normal;
    code = size >= 0x1.ffp127 ? 0x7f80u : code;
    return bf16{u16(is_nan(x) ? 0x7fffu : code | (bits >> 48 & 0x8000))};
}

// A sum whose last bit stands for all that was lost, so that rounding it again to fewer bits is right. The exponents
// of bf16 lie so far apart that double alone could miss what decides a tie; those of f16 do not.
SOFTGPU_INLINE f64 sum_to_odd(f64 a, f64 b) {
    const f64 sum = a + b, part = sum - a;
    const f64 lost = (a - (sum - part)) + (b - part);
    const u64 bits = bits_as<u64>(sum);
    const u64 odd = (bits - ((lost > 0) != (sum > 0) ? 1 : 0)) | 1;
    return lost > 0 || lost < 0 ? bits_as<f64>(odd) : sum;
}
SOFTGPU_INLINE f64 exact_enough(f64 product, f64 addend, f16) { return product + addend; }
SOFTGPU_INLINE f64 exact_enough(f64 product, f64 addend, bf16) { return sum_to_odd(product, addend); }

enum Mode : int { kPlain = 0, kFlush = 1, kSaturate = 2, kRelu = 4 };

template <int mode>
SOFTGPU_INLINE f64 entering(f16 h) {
    const f64 x = widen(h);
    return (mode & kFlush) && (h.bits & 0x7c00) == 0 ? x * 0.0 : x;
}
template <int mode>
SOFTGPU_INLINE f64 entering(bf16 h) {
    return widen(h);
}
template <int mode, class T>
SOFTGPU_INLINE T leaving(f64 x) {
    if constexpr (mode & kSaturate) x = x > 0 ? (x < 1 ? x : 1.0) : 0.0;
    if constexpr (mode & kRelu) x = x > 0 || is_nan(x) ? x : 0.0;
    T h = round_to(x, T{});
    if constexpr (mode & kFlush) h.bits = (h.bits & 0x7c00) == 0 ? u16(h.bits & 0x8000) : h.bits;
    return h;
}

template <class T, int mode>
SOFTGPU_INLINE T plus(T a, T b) {
    return leaving<mode, T>(entering<mode>(a) + entering<mode>(b));
}
template <class T, int mode>
SOFTGPU_INLINE T minus(T a, T b) {
    return leaving<mode, T>(entering<mode>(a) - entering<mode>(b));
}
template <class T, int mode>
SOFTGPU_INLINE T times(T a, T b) {
    return leaving<mode, T>(entering<mode>(a) * entering<mode>(b));
}
template <class T, int mode>
SOFTGPU_INLINE T times_plus(T a, T b, T c) {
    return leaving<mode, T>(exact_enough(entering<mode>(a) * entering<mode>(b), entering<mode>(c), T{}));
}
template <class T, int mode>
SOFTGPU_INLINE T smaller(T a, T b) {
    return round_to(least(f32(entering<mode>(a)), f32(entering<mode>(b))), T{});
}
template <class T, int mode>
SOFTGPU_INLINE T larger(T a, T b) {
    return round_to(most(f32(entering<mode>(a)), f32(entering<mode>(b))), T{});
}
template <class T>
SOFTGPU_INLINE T smaller_nan(T a, T b) {
    return is_nan(widen(a)) || is_nan(widen(b)) ? T{0x7fff} : smaller<T, 0>(a, b);
}
template <class T>
SOFTGPU_INLINE T larger_nan(T a, T b) {
    return is_nan(widen(a)) || is_nan(widen(b)) ? T{0x7fff} : larger<T, 0>(a, b);
}

// f16 denormals are zeros of their sign.
SOFTGPU_INLINE u16 flush_half(u32 bits) { return u16((bits & 0x7c00) == 0 ? bits & 0x8000 : bits); }
SOFTGPU_INLINE u32 flush_halves(u32 bits) { return flush_half(bits & 0xffff) | u32(flush_half(bits >> 16)) << 16; }

// Both halves of a pair.
template <class T, class F, class... S>
SOFTGPU_INLINE u32 pair(F f, S... in) {
    return u32(f(T{u16(in)}...).bits) | u32(f(T{u16(in >> 16)}...).bits) << 16;
}

#define BINARY(NAME, T, TN, FUNCTION)                                                              \
    {NAME "." TN, lanes<[](T a, T b) { return FUNCTION(a, b); }>},                                 \
    {NAME "." TN "x2", lanes<[](u32 a, u32 b) {                                                    \
         return pair<T>([](T x, T y) SOFTGPU_LAMBDA { return FUNCTION(x, y); }, a, b);             \
     }>},
#define TERNARY(NAME, T, TN, FUNCTION)                                                             \
    {NAME "." TN, lanes<[](T a, T b, T c) { return FUNCTION(a, b, c); }>},                         \
    {NAME "." TN "x2", lanes<[](u32 a, u32 b, u32 c) {                                             \
         return pair<T>([](T x, T y, T z) SOFTGPU_LAMBDA { return FUNCTION(x, y, z); }, a, b, c);  \
     }>},
#define SOFTGPU_LAMBDA __attribute__((always_inline))

#define ALL(T, TN)                                                                                             \
    BINARY("add", T, TN, (plus<T, kPlain>)) BINARY("sub", T, TN, (minus<T, kPlain>))                           \
    BINARY("mul", T, TN, (times<T, kPlain>)) TERNARY("fma", T, TN, (times_plus<T, kPlain>))                    \
    TERNARY("fma.relu", T, TN, (times_plus<T, kRelu>)) BINARY("min", T, TN, (smaller<T, kPlain>))              \
    BINARY("max", T, TN, (larger<T, kPlain>)) BINARY("min.NaN", T, TN, smaller_nan<T>)                         \
    BINARY("max.NaN", T, TN, larger_nan<T>)                                                                    \
    {"neg." TN, lanes<[](u16 a) { return u16(a ^ 0x8000); }>},                                                 \
    {"abs." TN, lanes<[](u16 a) { return u16(a & 0x7fff); }>},                                                 \
    {"neg." TN "x2", lanes<[](u32 a) { return a ^ 0x80008000u; }>},                                            \
    {"abs." TN "x2", lanes<[](u32 a) { return a & 0x7fff7fffu; }>},

#define MODES(T, TN, NAME, MODE)                                                                               \
    BINARY("add" NAME, T, TN, (plus<T, MODE>)) BINARY("sub" NAME, T, TN, (minus<T, MODE>))                     \
    BINARY("mul" NAME, T, TN, (times<T, MODE>)) TERNARY("fma" NAME, T, TN, (times_plus<T, MODE>))

const HandlerEntry kEntries[] = {
    ALL(f16, "f16") ALL(bf16, "bf16")
    MODES(f16, "f16", ".ftz", kFlush) MODES(f16, "f16", ".sat", kSaturate)
    MODES(f16, "f16", ".ftz.sat", kFlush | kSaturate)
    BINARY("min.ftz", f16, "f16", (smaller<f16, kFlush>)) BINARY("max.ftz", f16, "f16", (larger<f16, kFlush>))
    {"neg.ftz.f16", lanes<[](u16 a) { return u16(flush_half(a) ^ 0x8000); }>},
    {"abs.ftz.f16", lanes<[](u16 a) { return u16(flush_half(a) & 0x7fff); }>},
    {"neg.ftz.f16x2", lanes<[](u32 a) { return flush_halves(a) ^ 0x80008000u; }>},
    {"abs.ftz.f16x2", lanes<[](u32 a) { return flush_halves(a) & 0x7fff7fffu; }>},
    TERNARY("fma.ftz.relu", f16, "f16", (times_plus<f16, kFlush | kRelu>))
};

}  // namespace

extern const HandlerTable kHalfHandlers;
const HandlerTable kHalfHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
