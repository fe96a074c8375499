// cvt, and the moves that pack and unpack.
#include "exec/lanes/floats.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

template <class T>
constexpr bool kSigned = static_cast<T>(-1) < T(0);
template <class T>
constexpr s64 kLow = kSigned<T> ? s64(~u64(0) << (8 * sizeof(T) - 1)) : 0;
template <class T>
constexpr u64 kHigh = ~u64(0) >> (64 - 8 * sizeof(T) + (kSigned<T> ? 1 : 0));

// cvt.sat between integers: to the nearest that the result's type can hold.
template <class D, class S>
SOFTGPU_INLINE D clamp(S x) {
    if constexpr (kSigned<S>) {
        if (s64(x) < kLow<D>) return D(kLow<D>);
        return x > 0 && u64(x) > kHigh<D> ? D(kHigh<D>) : D(x);
    } else {
        return u64(x) > kHigh<D> ? D(kHigh<D>) : D(x);
    }
}

SOFTGPU_INLINE f32 integral(f32 x, Round mode) {
    switch (mode) {
        case Round::nearest: return __builtin_rintf(x);
        case Round::zero: return __builtin_truncf(x);
        case Round::down: return __builtin_floorf(x);
        default: return __builtin_ceilf(x);
    }
}
SOFTGPU_INLINE f64 integral(f64 x, Round mode) {
    switch (mode) {
        case Round::nearest: return __builtin_rint(x);
        case Round::zero: return __builtin_trunc(x);
        case Round::down: return __builtin_floor(x);
        default: return __builtin_ceil(x);
    }
}

// Float to integer saturates. NaN becomes zero, but the top bit alone where 64-bit types take part.
template <class D, class S>
SOFTGPU_INLINE D to_integer(S x, Round mode) {
    constexpr bool wide = sizeof(S) == 8 || sizeof(D) == 8;
    constexpr S top = S(kHigh<D> / 2 + 1) * 2;  // the first value above the range, exactly
    const D nan = wide ? D(u64(1) << (8 * sizeof(D) - 1)) : D(0);
    const S whole = integral(x, mode);
    const bool above = whole >= top, below = whole < S(kLow<D>);
    const S safe = above || below || is_nan(whole) ? S(0) : whole;
    D value;
    if constexpr (sizeof(D) == 8 && !kSigned<D>) {
        const bool large = safe >= S(0x1p63);
        const u64 low = u64(s64(large ? safe - S(0x1p63) : safe));
        value = low + (large ? u64(1) << 63 : 0);
    } else {
        using Through = std::conditional_t<(sizeof(D) < 4 || (sizeof(D) == 4 && kSigned<D>)), s32, s64>;
        value = D(Through(safe));
    }
    return is_nan(x) ? nan : above ? D(kHigh<D>) : below ? D(kLow<D>) : value;
}

template <class D, bool ftz, bool sat, class S>
SOFTGPU_INLINE D narrow(S x) {
    return out<ftz, sat>(D(x));
}

template <Round mode, const Handlers& handlers>
constexpr Handlers kRounded = mode == Round::nearest ? handlers : Handlers{rounded<mode, handlers.one>};

#define SOURCES(ENTRY, D, DN)                                                                            \
    ENTRY(D, DN, u8, "u8") ENTRY(D, DN, s8, "s8") ENTRY(D, DN, u16, "u16") ENTRY(D, DN, s16, "s16")      \
    ENTRY(D, DN, u32, "u32") ENTRY(D, DN, s32, "s32") ENTRY(D, DN, u64, "u64") ENTRY(D, DN, s64, "s64")
#define INTEGERS(ENTRY)                                                                                  \
    SOURCES(ENTRY, u8, "u8") SOURCES(ENTRY, s8, "s8") SOURCES(ENTRY, u16, "u16") SOURCES(ENTRY, s16, "s16") \
    SOURCES(ENTRY, u32, "u32") SOURCES(ENTRY, s32, "s32") SOURCES(ENTRY, u64, "u64") SOURCES(ENTRY, s64, "s64")
#define INTEGER_TO_INTEGER(D, DN, S, SN)                                   \
    {"cvt." DN "." SN, lanes<[](S x) { return D(x); }>},                   \
    {"cvt.sat." DN "." SN, lanes<[](S x) { return clamp<D>(x); }>},

#define TO_INTEGER(D, DN)                                                                                    \
    TO_INTEGER_BY("rni", Round::nearest, D, DN) TO_INTEGER_BY("rzi", Round::zero, D, DN)                     \
    TO_INTEGER_BY("rmi", Round::down, D, DN) TO_INTEGER_BY("rpi", Round::up, D, DN)
#define TO_INTEGER_BY(R, MODE, D, DN)                                                                        \
    {"cvt." R "." DN ".f32", lanes<[](f32 x) { return to_integer<D>(x, MODE); }>},                           \
    {"cvt." R ".ftz." DN ".f32", lanes<[](f32 x) { return to_integer<D>(flush(x), MODE); }>},                \
    {"cvt." R "." DN ".f64", lanes<[](f64 x) { return to_integer<D>(x, MODE); }>},                           \
    {"cvt." R "." DN ".f16", lanes<[](f16 x) { return to_integer<D>(widen(x), MODE); }>},                    \
    {"cvt." R "." DN ".bf16", lanes<[](bf16 x) { return to_integer<D>(widen(x), MODE); }>},

#define FROM_INTEGER(S, SN)                                                                               \
    FROM_INTEGER_BY("rn", Round::nearest, S, SN) FROM_INTEGER_BY("rz", Round::zero, S, SN)                \
    FROM_INTEGER_BY("rm", Round::down, S, SN) FROM_INTEGER_BY("rp", Round::up, S, SN)                     \
    {"cvt.rn.f16." SN, lanes<[](S x) { return to_half(f64(x)); }>},
#define FROM_INTEGER_BY(R, MODE, S, SN)                                                                   \
    {"cvt." R ".f32." SN, kRounded<MODE, lanes<[](S x) { return f32(x); }>>},                             \
    {"cvt." R ".sat.f32." SN, kRounded<MODE, lanes<[](S x) { return out<false, true>(f32(x)); }>>},       \
    {"cvt." R ".f64." SN, kRounded<MODE, lanes<[](S x) { return f64(x); }>>},

// Of 32 bits and more by way of f32 would be rounded twice.
#define FROM_SMALL(S, SN) {"cvt.rn.bf16." SN, lanes<[](S x) { return to_bfloat(f32(x)); }>},

#define FLOAT_TO_FLOAT(R, MODE)                                                                           \
    {"cvt." R ".f32.f64", kRounded<MODE, lanes<[](f64 x) { return narrow<f32, false, false>(x); }>>},     \
    {"cvt." R ".ftz.f32.f64", kRounded<MODE, lanes<[](f64 x) { return narrow<f32, true, false>(x); }>>},  \
    {"cvt." R ".sat.f32.f64", kRounded<MODE, lanes<[](f64 x) { return narrow<f32, false, true>(x); }>>},  \
    {"cvt." R ".ftz.sat.f32.f64", kRounded<MODE, lanes<[](f64 x) { return narrow<f32, true, true>(x); }>>},

#define TO_INTEGRAL(R, MODE)                                                                                       \
    {"cvt." R ".f32.f32", lanes<[](f32 x) { return out<false, false>(integral(x, MODE)); }>},                      \
    {"cvt." R ".ftz.f32.f32", lanes<[](f32 x) { return out<true, false>(integral(flush(x), MODE)); }>},            \
    {"cvt." R ".sat.f32.f32", lanes<[](f32 x) { return out<false, true>(integral(x, MODE)); }>},                   \
    {"cvt." R ".ftz.sat.f32.f32", lanes<[](f32 x) { return out<true, true>(integral(flush(x), MODE)); }>},         \
    {"cvt." R ".f64.f64", lanes<[](f64 x) { return integral(x, MODE); }>},                                         \
    {"cvt." R ".sat.f64.f64", lanes<[](f64 x) { return out<false, true>(integral(x, MODE)); }>},                   \
    {"cvt." R ".f16.f16", lanes<[](f16 x) { return to_half(integral(widen(x), MODE)); }>},                         \
    {"cvt." R ".bf16.bf16", lanes<[](bf16 x) { return to_bfloat(integral(widen(x), MODE)); }>},

SOFTGPU_INLINE f16 half_of(f32 x, bool relu) { return to_half(relu && !(x > 0) && !is_nan(x) ? 0.0f : x); }
SOFTGPU_INLINE bf16 bfloat_of(f32 x, bool relu) { return to_bfloat(relu && !(x > 0) && !is_nan(x) ? 0.0f : x); }
// Rounding toward zero, done on the bits.
SOFTGPU_INLINE f16 half_toward_zero(f32 x) {
    const f16 near = to_half(x);
    const f32 wide = widen(near);
    const f32 size = bits_as<f32>(bits_as<u32>(x) & 0x7fffffffu), got = bits_as<f32>(bits_as<u32>(wide) & 0x7fffffffu);
    return got > size ? f16{u16(near.bits - 1)} : near;
}

const HandlerEntry kEntries[] = {
    INTEGERS(INTEGER_TO_INTEGER)
    TO_INTEGER(u8, "u8") TO_INTEGER(s8, "s8") TO_INTEGER(u16, "u16") TO_INTEGER(s16, "s16")
    TO_INTEGER(u32, "u32") TO_INTEGER(s32, "s32") TO_INTEGER(u64, "u64") TO_INTEGER(s64, "s64")
    FROM_INTEGER(u8, "u8") FROM_INTEGER(s8, "s8") FROM_INTEGER(u16, "u16") FROM_INTEGER(s16, "s16")
    FROM_INTEGER(u32, "u32") FROM_INTEGER(s32, "s32") FROM_INTEGER(u64, "u64") FROM_INTEGER(s64, "s64")
    FROM_SMALL(u8, "u8") FROM_SMALL(s8, "s8") FROM_SMALL(u16, "u16") FROM_SMALL(s16, "s16")
    FLOAT_TO_FLOAT("rn", Round::nearest) FLOAT_TO_FLOAT("rz", Round::zero) FLOAT_TO_FLOAT("rm", Round::down)
    FLOAT_TO_FLOAT("rp", Round::up)
    TO_INTEGRAL("rni", Round::nearest) TO_INTEGRAL("rzi", Round::zero) TO_INTEGRAL("rmi", Round::down)
    TO_INTEGRAL("rpi", Round::up)
    {"cvt.f32.f32", lanes<[](f32 x) { return out<false, false>(x); }>},
    {"cvt.ftz.f32.f32", lanes<[](f32 x) { return out<true, false>(x); }>},
    {"cvt.sat.f32.f32", lanes<[](f32 x) { return out<false, true>(x); }>},
    {"cvt.ftz.sat.f32.f32", lanes<[](f32 x) { return out<true, true>(x); }>},
    {"cvt.f64.f64", lanes<[](f64 x) { return x; }>},
    {"cvt.sat.f64.f64", lanes<[](f64 x) { return out<false, true>(x); }>},
    {"cvt.f64.f32", lanes<[](f32 x) { return f64(x); }>},
    {"cvt.ftz.f64.f32", lanes<[](f32 x) { return f64(flush(x)); }>},
    {"cvt.sat.f64.f32", lanes<[](f32 x) { return out<false, true>(f64(x)); }>},
    {"cvt.f32.f16", lanes<[](f16 x) { return one_nan(widen(x)); }>},
    {"cvt.sat.f32.f16", lanes<[](f16 x) { return out<false, true>(widen(x)); }>},
    {"cvt.f64.f16", lanes<[](f16 x) { return f64(widen(x)); }>},
    {"cvt.f32.bf16", lanes<[](bf16 x) { return widen(x); }>},
    {"cvt.ftz.f32.bf16", lanes<[](bf16 x) { return flush(widen(x)); }>},
    {"cvt.f64.bf16", lanes<[](bf16 x) { return f64(widen(x)); }>},
    {"cvt.f16.f16", lanes<[](f16 x) { return x; }>},
    {"cvt.rn.f16.f32", lanes<[](f32 x) { return to_half(x); }>},
    {"cvt.rn.sat.f16.f32", lanes<[](f32 x) { return to_half(out<false, true>(x)); }>},
    {"cvt.rn.relu.f16.f32", lanes<[](f32 x) { return half_of(x, true); }>},
    {"cvt.rz.f16.f32", lanes<[](f32 x) { return half_toward_zero(x); }>},
    {"cvt.rn.f16.f64", lanes<[](f64 x) { return to_half(x); }>},
    {"cvt.rn.bf16.f32", lanes<[](f32 x) { return to_bfloat(x); }>},
    {"cvt.rn.relu.bf16.f32", lanes<[](f32 x) { return bfloat_of(x, true); }>},
    {"cvt.rz.bf16.f32", lanes<[](f32 x) { return bf16{u16(is_nan(x) ? 0x7fff : bits_as<u32>(x) >> 16)}; }>},
    {"cvt.rn.f16x2.f32", lanes<[](f32 a, f32 b) { return u32(to_half(a).bits) << 16 | to_half(b).bits; }>},
    {"cvt.rn.bf16x2.f32", lanes<[](f32 a, f32 b) { return u32(to_bfloat(a).bits) << 16 | to_bfloat(b).bits; }>},
    {"pack.b32.b16", lanes<[](u16 a, u16 b) { return u32(a) | u32(b) << 16; }>},
    {"pack.b64.b32", lanes<[](u32 a, u32 b) { return u64(a) | u64(b) << 32; }>},
    {"pack.b64.b16", lanes<[](u16 a, u16 b, u16 c, u16 d) {
         return u64(a) | u64(b) << 16 | u64(c) << 32 | u64(d) << 48;
     }>},
    {"pack.b16.b8", lanes<[](u8 a, u8 b) { return u16(a | b << 8); }>},
    {"pack.b32.b8", lanes<[](u8 a, u8 b, u8 c, u8 d) { return u32(a) | u32(b) << 8 | u32(c) << 16 | u32(d) << 24; }>},
    {"part0.b32.b16", lanes<[](u32 x) { return u16(x); }>},
    {"part1.b32.b16", lanes<[](u32 x) { return u16(x >> 16); }>},
    {"part0.b64.b32", lanes<[](u64 x) { return u32(x); }>},
    {"part1.b64.b32", lanes<[](u64 x) { return u32(x >> 32); }>},
    {"part0.b64.b16", lanes<[](u64 x) { return u16(x); }>},
    {"part1.b64.b16", lanes<[](u64 x) { return u16(x >> 16); }>},
    {"part2.b64.b16", lanes<[](u64 x) { return u16(x >> 32); }>},
    {"part3.b64.b16", lanes<[](u64 x) { return u16(x >> 48); }>},
    {"part0.b16.b8", lanes<[](u16 x) { return u8(x); }>},
    {"part1.b16.b8", lanes<[](u16 x) { return u8(x >> 8); }>},
    {"part0.b32.b8", lanes<[](u32 x) { return u8(x); }>},
    {"part1.b32.b8", lanes<[](u32 x) { return u8(x >> 8); }>},
    {"part2.b32.b8", lanes<[](u32 x) { return u8(x >> 16); }>},
    {"part3.b32.b8", lanes<[](u32 x) { return u8(x >> 24); }>},
};

}  // namespace

extern const HandlerTable kConvertHandlers;
const HandlerTable kConvertHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
