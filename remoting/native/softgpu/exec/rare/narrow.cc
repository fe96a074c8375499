// cvt to f16, bf16, tf32 and the 8-bit floats, in every rounding mode. The usual modes of f16 and bf16 have
// faster handlers of their own in exec/lanes/convert.cc.
#include "exec/rare/narrow.h"

#include "exec/rare/rare.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

using namespace narrowing;

// A binary format by its significand's bits (with the hidden one), its least normal exponent, the encodings
// of its largest number and of its NaN, and whether it has infinities, which then follow the largest number.
struct Format {
    int precision, least;
    u32 largest, nan;
    bool infinite;
    int sign;  // place of the sign bit
};
constexpr Format kF16{11, -14, 0x7bff, 0x7fff, true, 15};
constexpr Format kBf16{8, -126, 0x7f7f, 0x7fff, true, 15};
constexpr Format kTf32{11, -126, 0x3fbff, 0x3ffff, true, 18};
constexpr Format kE4m3{4, -6, 0x7e, 0x7f, false, 7};
constexpr Format kE5m2{3, -14, 0x7b, 0x7f, true, 7};

SOFTGPU_INLINE bool outward(u64 mode, bool negative) {
    return mode == kNearest || mode == kAway || mode == (negative ? kDown : kUp);
}

// units * 2^-shift, rounded to an integer.
SOFTGPU_INLINE u64 round_units(u64 units, int shift, u64 mode, bool negative) {
    if (shift <= 0) return units << -shift;
    const bool gone = shift > 62;
    const u64 whole = gone ? 0 : units >> shift;
    const u64 rest = gone ? 1 : units & ((u64(1) << shift) - 1), half = gone ? 2 : u64(1) << (shift - 1);
    if (rest == 0 || mode == kZero) return whole;
    if (mode == kNearest) return whole + (rest > half || (rest == half && (whole & 1)));
    if (mode == kAway) return whole + (rest >= half);
    return whole + outward(mode, negative);
}

// A finite number, not zero.
SOFTGPU_INLINE u32 encode_size(const Format& format, u64 imm, f64 size, bool negative) {
    const u64 mode = imm & kRounding, bits = bits_as<u64>(size);
    const int stored = int(bits >> 52);
    const int exponent = (stored ? stored : 1) - 1023;
    const u64 units = (bits & 0xfffffffffffffu) | (stored ? u64(1) << 52 : 0);  // of 2^(exponent - 52)
    const bool normal = exponent >= format.least;
    const int last = (normal ? exponent : format.least) - format.precision + 1;
    const u64 rounded = round_units(units, last - (exponent - 52), mode, negative);
    // A carry out of the significand goes on into the exponent by itself.
    const u64 hidden = u64(1) << (format.precision - 1);
    const u64 code =
        normal ? (u64(exponent - format.least) << (format.precision - 1)) + hidden + (rounded - hidden)
               : rounded;
    if (code <= format.largest) return u32(code);
    if ((imm & kFinite) || !outward(mode, negative)) return format.largest;
    return format.infinite ? format.largest + 1 : format.nan;
}

SOFTGPU_INLINE f64 to_integral(f64 x, u64 mode) {
    switch (mode) {
        case kZero:
            return __builtin_trunc(x);
        case kDown:
            return __builtin_floor(x);
        case kUp:
            return __builtin_ceil(x);
        default:
            return __builtin_rint(x);
    }
}

template <Format format>
SOFTGPU_INLINE u32 encode(u64 imm, f64 x) {
    if (imm & kSaturate) x = x > 0 ? (x < 1 ? x : 1.0) : 0.0;
    if (is_nan(x)) return format.nan;
    if ((imm & kRelu) && !(x > 0)) return 0;
    if (imm & kIntegral) x = to_integral(x, imm & kRounding);
    const bool negative = bits_as<u64>(x) >> 63;
    const f64 size = negative ? -x : x;
    u32 code = 0;
    if (size == __builtin_inf())
        code = (imm & kFinite) ? format.largest : format.infinite ? format.largest + 1 : format.nan;
    else if (size != 0)
        code = encode_size(format, imm, size, negative);
    return code | u32(negative) << format.sign;
}

// Exact in double, or rounded to odd, which no later rounding to fewer bits can tell from exact.
SOFTGPU_INLINE f64 wide(u64, f64 x) {
    return x;
}
SOFTGPU_INLINE f64 wide(u64 imm, f32 x) {
    return (imm & kFlush) ? flush(x) : x;
}
SOFTGPU_INLINE f64 wide(u64, f16 x) {
    return widen(x);
}
SOFTGPU_INLINE f64 wide(u64, bf16 x) {
    return widen(x);
}
SOFTGPU_INLINE f64 wide(u64, u64 x) {
    const u64 odd = x >> 54 ? (x >> 11 | ((x & 0x7ff) != 0)) << 11 : x;
    return f64(odd);
}
SOFTGPU_INLINE f64 wide(u64 imm, s64 x) {
    return x < 0 ? -wide(imm, 0 - u64(x)) : wide(imm, u64(x));
}
template <class T>
SOFTGPU_INLINE f64 wide(u64, T x) {
    return f64(x);
}

SOFTGPU_INLINE f32 from_e5m2(u8 code) {
    return widen(f16{u16(code << 8)});
}
SOFTGPU_INLINE f32 from_e4m3(u8 code) {
    const u32 size = code & 0x7f, exponent = size >> 3;
    if (size == 0x7f) return bits_as<f32>(kNan32);
    const f32 value = exponent == 0 ? f32(size) * 0x1p-9f : bits_as<f32>((size << 20) + ((127u - 7) << 23));
    return (code & 0x80) ? -value : value;
}
SOFTGPU_INLINE u32 half_pair(u64 imm, f32 high, f32 low) {
    const auto relu = [imm](f32 x) { return (imm & kRelu) && x < 0 ? 0.0f : x; };
    return u32(to_half(relu(high)).bits) << 16 | to_half(relu(low)).bits;
}

#define TO(TN, D, FORMAT, S, SN) \
    {"cvt.any." TN "." SN, lanes_by<[](u64 imm, S x) { return D{u16(encode<FORMAT>(imm, wide(imm, x)))}; }>},
#define TO_HALVES(S, SN) TO("f16", f16, kF16, S, SN) TO("bf16", bf16, kBf16, S, SN)
// The first operand is the upper half.
#define TO_PAIR(TN, FORMAT, BITS, D)                                                              \
    {"cvt.any." TN ".f32", lanes_by<[](u64 imm, f32 a, f32 b) {                                   \
         return D(encode<FORMAT>(imm, wide(imm, a)) << BITS | encode<FORMAT>(imm, wide(imm, b))); \
     }>},
#define TO_BYTES(TN, FORMAT)                                                                           \
    TO_PAIR(TN, FORMAT, 8, u16){"cvt.any." TN ".f16x2", lanes_by<[](u64 imm, u32 pair) {               \
                                    return u16(encode<FORMAT>(imm, widen(f16{u16(pair >> 16)})) << 8 | \
                                               encode<FORMAT>(imm, widen(f16{u16(pair)})));            \
                                }>},

// cvt.pack.sat: a and b in turn, into the lowest places; what c held moves up. Without c its place is b's.
template <int bits, bool is_signed>
SOFTGPU_INLINE u32 clamped(s32 x) {
    constexpr s32 least = is_signed ? -(1 << (bits - 1)) : 0,
                  most = is_signed ? (1 << (bits - 1)) - 1 : int((1u << bits) - 1);
    return u32(x < least ? least : x > most ? most : x) & ((1u << bits) - 1);
}
#define PACK(TN, BITS, SIGNED)                                                                 \
    {"cvt.pack." TN, lanes<[](s32 a, s32 b, u32 c) {                                           \
         return c << (2 * BITS) | clamped<BITS, SIGNED>(a) << BITS | clamped<BITS, SIGNED>(b); \
     }>},

const HandlerEntry kEntries[] = {
    TO_HALVES(f64, "f64") TO_HALVES(f32, "f32") TO_HALVES(f16, "f16") TO_HALVES(bf16, "bf16")
        TO_HALVES(u8, "u8") TO_HALVES(s8, "s8") TO_HALVES(u16, "u16") TO_HALVES(s16, "s16")
            TO_HALVES(u32, "u32") TO_HALVES(s32, "s32") TO_HALVES(u64, "u64") TO_HALVES(s64, "s64")
                TO_PAIR("f16x2", kF16, 16, u32) TO_PAIR("bf16x2", kBf16, 16, u32) TO_BYTES("e4m3x2", kE4m3)
                    TO_BYTES("e5m2x2", kE5m2){"cvt.any.tf32.f32", lanes_by<[](u64 imm, f32 x) {
                                                  return is_nan(x) && !(imm & kSaturate)
                                                             ? kNan32
                                                             : encode<kTf32>(imm, wide(imm, x)) << 13;
                                              }>},
    {"cvt.any.f16x2.e4m3x2",
     lanes_by<[](u64 imm, u16 x) { return half_pair(imm, from_e4m3(u8(x >> 8)), from_e4m3(u8(x))); }>},
    {"cvt.any.f16x2.e5m2x2",
     lanes_by<[](u64 imm, u16 x) { return half_pair(imm, from_e5m2(u8(x >> 8)), from_e5m2(u8(x))); }>},
    PACK("u8", 8, false) PACK("s8", 8, true) PACK("u4", 4, false) PACK("s4", 4, true) PACK("u2", 2, false)
        PACK("s2", 2, true){
            "cvt.pack.u16",
            lanes<[](s32 a, s32 b) { return clamped<16, false>(a) << 16 | clamped<16, false>(b); }>},
    {"cvt.pack.s16", lanes<[](s32 a, s32 b) { return clamped<16, true>(a) << 16 | clamped<16, true>(b); }>},
};

}  // namespace

extern const HandlerTable kNarrowHandlers;
const HandlerTable kNarrowHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
