// Arithmetic of f32 and f64.
#include "exec/lanes/floats.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

SOFTGPU_INLINE f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
SOFTGPU_INLINE f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
SOFTGPU_INLINE f32 root(f32 a) { return __builtin_sqrtf(a); }
SOFTGPU_INLINE f64 root(f64 a) { return __builtin_sqrt(a); }

template <class T, bool ftz, bool sat>
constexpr Handlers add = lanes<[](T a, T b) { return out<ftz, sat>(in<ftz>(a) + in<ftz>(b)); }>;
template <class T, bool ftz, bool sat>
constexpr Handlers sub = lanes<[](T a, T b) { return out<ftz, sat>(in<ftz>(a) - in<ftz>(b)); }>;
template <class T, bool ftz, bool sat>
constexpr Handlers mul = lanes<[](T a, T b) { return out<ftz, sat>(in<ftz>(a) * in<ftz>(b)); }>;
template <class T, bool ftz, bool sat>
constexpr Handlers fma = lanes<[](T a, T b, T c) { return out<ftz, sat>(fused(in<ftz>(a), in<ftz>(b), in<ftz>(c))); }>;
template <class T, bool ftz>
constexpr Handlers divide = lanes<[](T a, T b) { return out<ftz, false>(in<ftz>(a) / in<ftz>(b)); }>;
template <class T, bool ftz>
constexpr Handlers reciprocal = lanes<[](T a) { return out<ftz, false>(T(1) / in<ftz>(a)); }>;
template <class T, bool ftz>
constexpr Handlers square_root = lanes<[](T a) { return out<ftz, false>(root(in<ftz>(a))); }>;

// The nearest f32 to the root's reciprocal, by way of f64.
template <bool ftz>
constexpr Handlers reciprocal_root = lanes<[](f32 a) { return out<ftz, false>(f32(1.0 / root(f64(in<ftz>(a))))); }>;
// f64's coarse starts for Newton's method: flushed, as the hardware does.
SOFTGPU_INLINE f64 flush_double(f64 x) {
    const u64 bits = bits_as<u64>(x);
    return (bits & 0x7ff0000000000000u) == 0 ? bits_as<f64>(bits & 0x8000000000000000u) : x;
}

template <class T, bool ftz>
constexpr Handlers minimum = lanes<[](T a, T b) { return least(in<ftz>(a), in<ftz>(b)); }>;
template <class T, bool ftz>
constexpr Handlers maximum = lanes<[](T a, T b) { return most(in<ftz>(a), in<ftz>(b)); }>;
template <bool ftz>
constexpr Handlers minimum_nan =
    lanes<[](f32 a, f32 b) { return is_nan(a) || is_nan(b) ? bits_as<f32>(kNan32) : least(in<ftz>(a), in<ftz>(b)); }>;
template <bool ftz>
constexpr Handlers maximum_nan =
    lanes<[](f32 a, f32 b) { return is_nan(a) || is_nan(b) ? bits_as<f32>(kNan32) : most(in<ftz>(a), in<ftz>(b)); }>;

#define ROUNDINGS(NAME, TAIL, HANDLER)                                                          \
    {NAME TAIL, HANDLER}, {NAME ".rz" TAIL, rounded<Round::zero, HANDLER>},                     \
    {NAME ".rm" TAIL, rounded<Round::down, HANDLER>}, {NAME ".rp" TAIL, rounded<Round::up, HANDLER>},

#define WITH_SATURATION(NAME, OP)                                  \
    ROUNDINGS(NAME, ".f32", (OP<f32, false, false>))               \
    ROUNDINGS(NAME, ".ftz.f32", (OP<f32, true, false>))            \
    ROUNDINGS(NAME, ".sat.f32", (OP<f32, false, true>))            \
    ROUNDINGS(NAME, ".ftz.sat.f32", (OP<f32, true, true>))         \
    ROUNDINGS(NAME, ".f64", (OP<f64, false, false>))

#define WITHOUT_SATURATION(NAME, OP)                 \
    ROUNDINGS(NAME, ".f32", (OP<f32, false>))        \
    ROUNDINGS(NAME, ".ftz.f32", (OP<f32, true>))     \
    ROUNDINGS(NAME, ".f64", (OP<f64, false>))

const HandlerEntry kEntries[] = {
    WITH_SATURATION("add", add) WITH_SATURATION("sub", sub) WITH_SATURATION("mul", mul) WITH_SATURATION("fma", fma)
    WITHOUT_SATURATION("div", divide) WITHOUT_SATURATION("rcp", reciprocal) WITHOUT_SATURATION("sqrt", square_root)
    {"rsqrt.f32", reciprocal_root<false>},
    {"rsqrt.ftz.f32", reciprocal_root<true>},
    {"rsqrt.f64", lanes<[](f64 a) { return 1.0 / root(a); }>},
    {"rsqrt.ftz.f64", lanes<[](f64 a) { return flush_double(1.0 / root(flush_double(a))); }>},
    {"rcp.ftz.f64", lanes<[](f64 a) { return flush_double(1.0 / flush_double(a)); }>},
    {"min.f32", minimum<f32, false>},
    {"min.ftz.f32", minimum<f32, true>},
    {"min.NaN.f32", minimum_nan<false>},
    {"min.ftz.NaN.f32", minimum_nan<true>},
    {"min.f64", minimum<f64, false>},
    {"max.f32", maximum<f32, false>},
    {"max.ftz.f32", maximum<f32, true>},
    {"max.NaN.f32", maximum_nan<false>},
    {"max.ftz.NaN.f32", maximum_nan<true>},
    {"max.f64", maximum<f64, false>},
    {"abs.f32", lanes<[](u32 a) { return a & 0x7fffffffu; }>},
    {"abs.ftz.f32", lanes<[](f32 a) { return flush(bits_as<f32>(bits_as<u32>(a) & 0x7fffffffu)); }>},
    {"abs.f64", lanes<[](u64 a) { return a & ~(u64(1) << 63); }>},
    {"neg.f32", lanes<[](u32 a) { return a ^ 0x80000000u; }>},
    {"neg.ftz.f32", lanes<[](f32 a) { return flush(bits_as<f32>(bits_as<u32>(a) ^ 0x80000000u)); }>},
    {"neg.f64", lanes<[](u64 a) { return a ^ u64(1) << 63; }>},
    {"copysign.f32", lanes<[](u32 a, u32 b) { return (a & 0x80000000u) | (b & 0x7fffffffu); }>},
    {"copysign.f64", lanes<[](u64 a, u64 b) { return (a & u64(1) << 63) | (b & ~(u64(1) << 63)); }>},
};

}  // namespace

extern const HandlerTable kFloatHandlers;
const HandlerTable kFloatHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
