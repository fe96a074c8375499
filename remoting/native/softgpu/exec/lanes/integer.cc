// Integer arithmetic, bit fields and logic.
#include "exec/lanes/lanes.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

// Division by zero gives all ones and leaves the dividend as the remainder, as the hardware's routine does.
// The quotient of 32-bit integers is exact in double: it is never nearer than 2^-32, relatively, below an
// integer.
SOFTGPU_INLINE u32 divide(u32 a, u32 b) {
    const f64 quotient = f64(a) / f64(b ? b : 1);
    return b ? u32(s64(quotient)) : ~0u;
}
SOFTGPU_INLINE s32 divide(s32 a, s32 b) {
    const f64 quotient = f64(a) / f64(b ? b : 1);
    return b ? s32(u32(s64(quotient))) : -1;  // through 64 bits: -2^31 / -1 wraps
}
SOFTGPU_INLINE u64 divide(u64 a, u64 b) {
    return b ? a / b : ~u64(0);
}
SOFTGPU_INLINE s64 divide(s64 a, s64 b) {
    return b == 0 ? -1 : b == -1 ? s64(0 - u64(a)) : a / b;
}
template <class T>
SOFTGPU_INLINE T remainder(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return b ? T(U(a) - U(divide(a, b)) * U(b)) : a;
}

SOFTGPU_INLINE u64 high(u64 a, u64 b) {
    return u64((unsigned __int128)(a)*b >> 64);
}
SOFTGPU_INLINE s64 high(s64 a, s64 b) {
    return s64((__int128)(a)*b >> 64);
}
SOFTGPU_INLINE u32 high(u32 a, u32 b) {
    return u32(u64(a) * b >> 32);
}
SOFTGPU_INLINE s32 high(s32 a, s32 b) {
    return s32(s64(a) * b >> 32);
}

SOFTGPU_INLINE s32 saturate(s64 value) {
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : s32(value);
}

SOFTGPU_INLINE u32 population(u32 x) {
    x = x - (x >> 1 & 0x55555555u);
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}
SOFTGPU_INLINE u32 leading_zeros(u32 x) {
    x |= x >> 1, x |= x >> 2, x |= x >> 4, x |= x >> 8, x |= x >> 16;
    return 32 - population(x);
}
SOFTGPU_INLINE u32 leading_zeros(u64 x) {
    return (x >> 32) ? leading_zeros(u32(x >> 32)) : 32 + leading_zeros(u32(x));
}
SOFTGPU_INLINE u32 reverse(u32 x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}

// bfe: bits [start, start + count), with the sign at the field's top or at the word's when the field passes
// it.
template <class T>
SOFTGPU_INLINE T extract(T a, u32 position, u32 count) {
    constexpr u32 width = 8 * sizeof(T);
    using U = std::make_unsigned_t<T>;
    const u32 start = position & 0xff, length = count & 0xff;
    const U field = start < width ? U(U(a) >> (start & (width - 1))) : U(0);
    const U mask = length >= width ? ~U(0) : (U(1) << (length & (width - 1))) - 1;
    if (static_cast<T>(-1) > T(0)) return T(field & mask);
    const u32 top = start + length - 1 < width - 1 ? start + length - 1 : width - 1;
    const bool negative = length != 0 && (U(a) >> (top & (width - 1)) & 1);
    const U kept = start < width ? mask : U(0);
    // Bits past the word's end are copies of its sign.
    const u32 there = start < width ? width - start : 0;
    const U real = length >= there ? (there >= width ? ~U(0) : (U(1) << (there & (width - 1))) - 1) : mask;
    return T((field & kept & real) | (negative ? ~(real & kept) : U(0)));
}
template <class T>
SOFTGPU_INLINE T insert(T a, T b, u32 position, u32 count) {
    constexpr u32 width = 8 * sizeof(T);
    const u32 start = position & 0xff, length = count & 0xff;
    if (start >= width) return b;
    const T ones = length >= width ? ~T(0) : (T(1) << (length & (width - 1))) - 1;
    const T mask = ones << (start & (width - 1));
    return (b & ~mask) | (a << (start & (width - 1)) & mask);
}

template <class T>
SOFTGPU_INLINE u32 highest(T a) {
    using U = std::make_unsigned_t<T>;
    const U bits = static_cast<T>(-1) > T(0) || a >= 0 ? U(a) : U(~a);
    const u32 zeros = leading_zeros(bits);
    return bits ? 8 * sizeof(T) - 1 - zeros : ~0u;
}
template <class T>
SOFTGPU_INLINE u32 highest_shift(T a) {
    using U = std::make_unsigned_t<T>;
    const U bits = static_cast<T>(-1) > T(0) || a >= 0 ? U(a) : U(~a);
    return bits ? leading_zeros(bits) : ~0u;
}

SOFTGPU_INLINE u32 permute(u32 a, u32 b, u32 selector) {
    const u64 bytes = u64(b) << 32 | a;
    u32 out = 0;
    for (u32 i = 0; i < 4; ++i) {
        const u32 pick = selector >> (4 * i);
        const u32 byte = u32(bytes >> (8 * (pick & 7))) & 0xff;
        out |= ((pick & 8) ? (byte & 0x80 ? 0xffu : 0u) : byte) << (8 * i);
    }
    return out;
}
SOFTGPU_INLINE u32 byte_of(u32 a, u32 b, u32 number) {
    return u32((u64(b) << 32 | a) >> (8 * (number & 7))) & 0xff;
}

SOFTGPU_INLINE s32 sign_extend(u32 a, u32 bits) {
    return bits == 0 ? 0 : s32(a << (32 - bits)) >> (32 - bits);
}

template <class A, class B>
SOFTGPU_INLINE s32 dot4(u32 a, u32 b, s32 c) {
    u32 sum = u32(c);
    for (u32 i = 0; i < 4; ++i) sum += u32(s32(A(a >> (8 * i))) * s32(B(b >> (8 * i))));
    return s32(sum);
}
template <class A, class B, int half>
SOFTGPU_INLINE s32 dot2(u32 a, u32 b, s32 c) {
    u32 sum = u32(c);
    for (u32 i = 0; i < 2; ++i) sum += u32(s32(A(a >> (16 * i))) * s32(B(b >> (16 * half + 8 * i))));
    return s32(sum);
}

// Carries are a bit a lane in the warp. A handler with .cc writes them, one with c reads them.
enum Carry : int { kReads = 1, kWrites = 2 };
template <class T, int carry, class F>
SOFTGPU_INLINE const Op* with_carry(const Op* op, Warp* warp, F f) {
    const Held<T>*a = slot<T>(warp, op->a), *b = slot<T>(warp, op->b);
    Held<T>* out = result<T>(op, warp);
    alignas(64) s32 carried[kLanes];
    const u32 before = warp->carry;
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < kLanes; ++i) {
        bool flag = (carry & kReads) && (before & kBit[i]);
        out[i] = f(a[i], b[i], flag);
        carried[i] = flag ? -1 : 0;
    }
    if (carry & kWrites) warp->carry = (before & ~warp->mask) | (pack_bits(carried) & warp->mask);
    finish<T>(op, warp);
    return op + 1;
}
template <class T, int carry>
const Op* add_carry(const Op* op, Warp* warp) {
    return with_carry<T, carry>(op, warp, [](T a, T b, bool& flag) {
        const T sum = a + b, all = sum + T(flag);
        flag = sum < a || all < sum;
        return all;
    });
}
// CC.CF is the borrow.
template <class T, int carry>
const Op* subtract_carry(const Op* op, Warp* warp) {
    return with_carry<T, carry>(op, warp, [](T a, T b, bool& flag) {
        const T difference = a - b, all = difference - T(flag);
        flag = a < b || difference < T(flag);
        return all;
    });
}

// lop3: one loop for any table, as the sum of the products it holds.
const Op* logic3(const Op* op, Warp* warp) {
    const u32 *a = slot<u32>(warp, op->a), *b = slot<u32>(warp, op->b), *c = slot<u32>(warp, op->c);
    u32* out = result<u32>(op, warp);
    u32 table[8];
    for (u32 i = 0; i < 8; ++i) table[i] = (op->imm >> i & 1) ? ~0u : 0u;
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < kLanes; ++i) {
        const u32 x = a[i], y = b[i], z = c[i];
        const u32 low = (~y & ((~z & table[0]) | (z & table[1]))) | (y & ((~z & table[2]) | (z & table[3])));
        const u32 top = (~y & ((~z & table[4]) | (z & table[5]))) | (y & ((~z & table[6]) | (z & table[7])));
        out[i] = (~x & low) | (x & top);
    }
    finish<u32>(op, warp);
    return op + 1;
}

#define WIDTHS(ENTRY) ENTRY(u16, "b16") ENTRY(u32, "b32") ENTRY(u64, "b64")
#define SIGNS(ENTRY)  \
    ENTRY(u16, "u16") \
    ENTRY(u32, "u32") ENTRY(u64, "u64") ENTRY(s16, "s16") ENTRY(s32, "s32") ENTRY(s64, "s64")
#define SIGNS_32_64(ENTRY) ENTRY(u32, "u32") ENTRY(u64, "u64") ENTRY(s32, "s32") ENTRY(s64, "s64")

#define BY_WIDTH(T, N)                                                                                      \
    {"add." N, lanes<[](T a, T b) { return T(a + b); }>},                                                   \
        {"sub." N, lanes<[](T a, T b) { return T(a - b); }>},                                               \
        {"mul.lo." N, lanes<[](T a, T b) { return T(u64(a) * u64(b)); }>},                                  \
        {"mad.lo." N, lanes<[](T a, T b, T c) { return T(u64(a) * u64(b) + u64(c)); }>},                    \
        {"neg." N, lanes<[](T a) { return T(0 - a); }>},                                                    \
        {"and." N, lanes<[](T a, T b) { return T(a & b); }>},                                               \
        {"or." N, lanes<[](T a, T b) { return T(a | b); }>},                                                \
        {"xor." N, lanes<[](T a, T b) { return T(a ^ b); }>}, {"not." N, lanes<[](T a) { return T(~a); }>}, \
        {"cnot." N, lanes<[](T a) { return T(a == 0); }>},                                                  \
        {"shl." N,                                                                                          \
         lanes<[](T a, u32 b) { return b < 8 * sizeof(T) ? T(a << (b & (8 * sizeof(T) - 1))) : T(0); }>},

#define BY_SIGN(T, N)                                                                                    \
    {"min." N, lanes<[](T a, T b) { return b < a ? b : a; }>},                                           \
        {"max." N, lanes<[](T a, T b) { return a < b ? b : a; }>},                                       \
        {"shr." N, lanes<[](T a, u32 b) {                                                                \
             constexpr u32 last = 8 * sizeof(T) - 1;                                                     \
             return b <= last ? T(a >> (b & last)) : T(static_cast<T>(-1) > T(0) ? T(0) : T(a >> last)); \
         }>},                                                                                            \
        {"sad." N,                                                                                       \
         lanes<[](T a, T b, T c) { return T(u64(c) + (a < b ? u64(b) - u64(a) : u64(a) - u64(b))); }>},

#define SIGNED(T, N) {"abs." N, lanes<[](T a) { return T(a < 0 ? 0 - u64(a) : u64(a)); }>},

#define BY_SIGN_32_64(T, N)                                                              \
    {"div." N, lanes<[](T a, T b) { return divide(a, b); }>},                            \
        {"rem." N, lanes<[](T a, T b) { return remainder(a, b); }>},                     \
        {"mul.hi." N, lanes<[](T a, T b) { return high(a, b); }>},                       \
        {"mad.hi." N, lanes<[](T a, T b, T c) { return T(u64(high(a, b)) + u64(c)); }>}, \
        {"bfe." N, lanes<[](T a, u32 b, u32 c) { return extract(a, b, c); }>},           \
        {"bfind." N, lanes<[](T a) { return highest(a); }>},                             \
        {"bfind.shiftamt." N, lanes<[](T a) { return highest_shift(a); }>},

// An address in two or five instructions, which the lowering puts into one (lower/fuse.cc): an element of 2^K
// bytes, whose number counts from the end where it is negative.
#define SCALED(K)                                                                                     \
    {"shl.add." #K, lanes<[](u64 a, u64 b) { return (a << K) + b; }>}, {                              \
        "index." #K, lanes<[](u64 a, u64 b, u64 c) { return ((a + (s64(a) < 0 ? b : 0)) << K) + c; }> \
    }

#define CARRIES(T, N)                                                                              \
    {"add.cc." N, add_carry<T, kWrites>}, {"addc." N, add_carry<T, kReads>},                       \
        {"addc.cc." N, add_carry<T, kReads | kWrites>}, {"sub.cc." N, subtract_carry<T, kWrites>}, \
        {"subc." N, subtract_carry<T, kReads>}, {"subc.cc." N, subtract_carry<T, kReads | kWrites>},

const HandlerEntry kEntries[] = {
    {"mov.b32", lanes<[](u32 a) { return a; }>}, {"mov.b64", lanes<[](u64 a) { return a; }>},
    WIDTHS(BY_WIDTH) SIGNS(BY_SIGN) SIGNS_32_64(BY_SIGN_32_64) CARRIES(u32, "b32") CARRIES(u64, "b64")
        SIGNED(s16, "s16") SIGNED(s32, "s32")
            SIGNED(s64, "s64"){"div.u16", lanes<[](u16 a, u16 b) { return u16(divide(u32(a), u32(b))); }>},
    {"div.s16", lanes<[](s16 a, s16 b) { return s16(divide(s32(a), s32(b))); }>},
    {"rem.u16", lanes<[](u16 a, u16 b) { return u16(remainder(u32(a), u32(b))); }>},
    {"rem.s16", lanes<[](s16 a, s16 b) { return s16(remainder(s32(a), s32(b))); }>},
    {"mul.hi.u16", lanes<[](u16 a, u16 b) { return u16(u32(a) * b >> 16); }>},
    {"mul.hi.s16", lanes<[](s16 a, s16 b) { return s16(s32(a) * b >> 16); }>},
    {"mad.hi.u16", lanes<[](u16 a, u16 b, u16 c) { return u16((u32(a) * b >> 16) + c); }>},
    {"mad.hi.s16", lanes<[](s16 a, s16 b, s16 c) { return s16((s32(a) * b >> 16) + c); }>},
    {"mul.wide.u16", lanes<[](u16 a, u16 b) { return u32(a) * u32(b); }>},
    {"mul.wide.s16", lanes<[](s16 a, s16 b) { return s32(a) * s32(b); }>},
    {"mul.wide.u32", lanes<[](u32 a, u32 b) { return u64(a) * u64(b); }>},
    {"mul.wide.s32", lanes<[](s32 a, s32 b) { return s64(a) * s64(b); }>},
    {"mad.wide.u16", lanes<[](u16 a, u16 b, u32 c) { return u32(a) * u32(b) + c; }>},
    {"mad.wide.s16", lanes<[](s16 a, s16 b, u32 c) { return u32(s32(a) * s32(b)) + c; }>},
    {"mad.wide.u32", lanes<[](u32 a, u32 b, u64 c) { return u64(a) * u64(b) + c; }>},
    {"mad.wide.s32", lanes<[](s32 a, s32 b, u64 c) { return u64(s64(a) * s64(b)) + c; }>},
    {"add.sat.s32", lanes<[](s32 a, s32 b) { return saturate(s64(a) + b); }>},
    {"sub.sat.s32", lanes<[](s32 a, s32 b) { return saturate(s64(a) - b); }>},
    {"mad.hi.sat.s32", lanes<[](s32 a, s32 b, s32 c) { return saturate((s64(a) * b >> 32) + c); }>},
    {"mul24.lo.u32", lanes<[](u32 a, u32 b) { return u32(u64(a & 0xffffff) * (b & 0xffffff)); }>},
    {"mul24.lo.s32",
     lanes<[](s32 a, s32 b) { return u32(s64(s32(u32(a) << 8) >> 8) * (s32(u32(b) << 8) >> 8)); }>},
    {"mul24.hi.u32", lanes<[](u32 a, u32 b) { return u32(u64(a & 0xffffff) * (b & 0xffffff) >> 16); }>},
    {"mul24.hi.s32",
     lanes<[](s32 a, s32 b) { return u32(s64(s32(u32(a) << 8) >> 8) * (s32(u32(b) << 8) >> 8) >> 16); }>},
    {"popc.b32", lanes<[](u32 a) { return population(a); }>},
    {"popc.b64", lanes<[](u64 a) { return population(u32(a)) + population(u32(a >> 32)); }>},
    {"clz.b32", lanes<[](u32 a) { return leading_zeros(a); }>},
    {"clz.b64", lanes<[](u64 a) { return leading_zeros(a); }>},
    {"brev.b32", lanes<[](u32 a) { return reverse(a); }>},
    {"brev.b64", lanes<[](u64 a) { return u64(reverse(u32(a))) << 32 | reverse(u32(a >> 32)); }>},
    {"bfi.b32", lanes<[](u32 a, u32 b, u32 c, u32 d) { return insert(a, b, c, d); }>},
    {"bfi.b64", lanes<[](u64 a, u64 b, u32 c, u32 d) { return insert(a, b, c, d); }>},
    {"lop3.b32", logic3},
    SCALED(0),
    SCALED(1),
    SCALED(2),
    SCALED(3),
    SCALED(4),
    {"shf.l.clamp.b32", lanes<[](u32 a, u32 b, u32 c) {
         const u32 n = c < 32 ? c : 32;
         return u32((u64(b) << 32 | a) << n >> 32);
     }>},
    {"shf.r.clamp.b32", lanes<[](u32 a, u32 b, u32 c) {
         const u32 n = c < 32 ? c : 32;
         return u32((u64(b) << 32 | a) >> n);
     }>},
    {"shf.l.wrap.b32", lanes<[](u32 a, u32 b, u32 c) { return u32((u64(b) << 32 | a) << (c & 31) >> 32); }>},
    {"shf.r.wrap.b32", lanes<[](u32 a, u32 b, u32 c) { return u32((u64(b) << 32 | a) >> (c & 31)); }>},
    {"prmt.b32", lanes<[](u32 a, u32 b, u32 c) { return permute(a, b, c); }>},
    {"prmt.f4e.b32", lanes<[](u32 a, u32 b, u32 c) {
         const u32 n = c & 3;
         return byte_of(a, b, n) | byte_of(a, b, n + 1) << 8 | byte_of(a, b, n + 2) << 16 |
                byte_of(a, b, n + 3) << 24;
     }>},
    {"prmt.b4e.b32", lanes<[](u32 a, u32 b, u32 c) {
         const u32 n = c & 3;
         return byte_of(a, b, n) | byte_of(a, b, n - 1) << 8 | byte_of(a, b, n - 2) << 16 |
                byte_of(a, b, n - 3) << 24;
     }>},
    {"prmt.rc8.b32", lanes<[](u32 a, u32 b, u32 c) { return byte_of(a, b, c & 3) * 0x01010101u; }>},
    {"prmt.ecl.b32", lanes<[](u32 a, u32 b, u32 c) {
         const u32 n = c & 3;
         return byte_of(a, b, n) | byte_of(a, b, n > 1 ? n : 1) << 8 | byte_of(a, b, n > 2 ? n : 2) << 16 |
                byte_of(a, b, 3) << 24;
     }>},
    {"prmt.ecr.b32", lanes<[](u32 a, u32 b, u32 c) {
         const u32 n = c & 3;
         return byte_of(a, b, 0) | byte_of(a, b, n < 1 ? n : 1) << 8 | byte_of(a, b, n < 2 ? n : 2) << 16 |
                byte_of(a, b, n) << 24;
     }>},
    {"prmt.rc16.b32", lanes<[](u32 a, u32 b, u32 c) {
         const u32 n = c & 1 ? 2 : 0;
         return (byte_of(a, b, n) | byte_of(a, b, n + 1) << 8) * 0x00010001u;
     }>},
    {"dp4a.u32.u32", lanes<[](u32 a, u32 b, s32 c) { return dot4<u8, u8>(a, b, c); }>},
    {"dp4a.u32.s32", lanes<[](u32 a, u32 b, s32 c) { return dot4<u8, s8>(a, b, c); }>},
    {"dp4a.s32.u32", lanes<[](u32 a, u32 b, s32 c) { return dot4<s8, u8>(a, b, c); }>},
    {"dp4a.s32.s32", lanes<[](u32 a, u32 b, s32 c) { return dot4<s8, s8>(a, b, c); }>},
    {"dp2a.lo.u32.u32", lanes<[](u32 a, u32 b, s32 c) { return dot2<u16, u8, 0>(a, b, c); }>},
    {"dp2a.lo.u32.s32", lanes<[](u32 a, u32 b, s32 c) { return dot2<u16, s8, 0>(a, b, c); }>},
    {"dp2a.lo.s32.u32", lanes<[](u32 a, u32 b, s32 c) { return dot2<s16, u8, 0>(a, b, c); }>},
    {"dp2a.lo.s32.s32", lanes<[](u32 a, u32 b, s32 c) { return dot2<s16, s8, 0>(a, b, c); }>},
    {"dp2a.hi.u32.u32", lanes<[](u32 a, u32 b, s32 c) { return dot2<u16, u8, 1>(a, b, c); }>},
    {"dp2a.hi.u32.s32", lanes<[](u32 a, u32 b, s32 c) { return dot2<u16, s8, 1>(a, b, c); }>},
    {"dp2a.hi.s32.u32", lanes<[](u32 a, u32 b, s32 c) { return dot2<s16, u8, 1>(a, b, c); }>},
    {"dp2a.hi.s32.s32", lanes<[](u32 a, u32 b, s32 c) { return dot2<s16, s8, 1>(a, b, c); }>},
    {"bmsk.clamp.b32",
     lanes<[](u32 a, u32 b) { return insert(~0u, 0u, a < 255 ? a : 255, b < 255 ? b : 255); }>},
    {"bmsk.wrap.b32", lanes<[](u32 a, u32 b) { return insert(~0u, 0u, a & 31, b & 31); }>},
    {"szext.clamp.u32", lanes<[](u32 a, u32 b) { return b >= 32 ? a : a & ((1u << (b & 31)) - 1); }>},
    {"szext.wrap.u32", lanes<[](u32 a, u32 b) { return a & ((1u << (b & 31)) - 1); }>},
    {"szext.clamp.s32", lanes<[](u32 a, u32 b) { return sign_extend(a, b < 32 ? b : 32); }>},
    {"szext.wrap.s32", lanes<[](u32 a, u32 b) { return sign_extend(a, b & 31); }>},
};

}  // namespace

extern const HandlerTable kIntegerHandlers;
const HandlerTable kIntegerHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
