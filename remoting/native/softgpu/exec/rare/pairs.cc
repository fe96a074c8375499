// Pairs of 16-bit integers, and single instructions that few programs use.
#include "exec/rare/rare.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

template <class T, class F>
SOFTGPU_INLINE u32 both(F f, u32 a, u32 b) {
    return u32(u16(f(T(a), T(b)))) | u32(u16(f(T(a >> 16), T(b >> 16)))) << 16;
}

// The place of the n-th set bit from `base` on, upwards for n > 0, downwards for n < 0; all ones if there is
// none.
SOFTGPU_INLINE u32 nth_bit(u32 mask, u32 base, s32 n) {
    if (base > 31) return ~0u;
    if (n == 0) return (mask >> base & 1) ? base : ~0u;
    const s32 step = n > 0 ? 1 : -1;
    s32 left = n > 0 ? n : -n;
    for (s32 at = s32(base); at >= 0 && at < 32; at += step) {
        if ((mask >> at & 1) && --left == 0) return u32(at);
    }
    return ~0u;
}

#define PAIR(NAME, T, TN, EXPRESSION)                                                              \
    {NAME "." TN "x2", lanes<[](u32 a, u32 b) {                                                    \
         return both<T>([](T x, T y) __attribute__((always_inline)) { return EXPRESSION; }, a, b); \
     }>},

const HandlerEntry kEntries[] = {
    PAIR("add", u16, "u16", u16(x + y)) PAIR("add", s16, "s16", s16(x + y))
        PAIR("min", u16, "u16", x < y ? x : y) PAIR("max", u16, "u16", x < y ? y : x)
            PAIR("min", s16, "s16", x < y ? x : y) PAIR("max", s16, "s16", x < y ? y : x) PAIR(
                "min.relu", s16, "s16",
                (x < y ? x : y) < 0 ? s16(0)
                : x < y             ? x
                                    : y) PAIR("max.relu", s16, "s16",
                                  (x < y ? y : x) < 0 ? s16(0)
                                  : x < y             ? y
                                                      : x){
                "min.relu.s32", lanes<[](s32 a, s32 b) { return (a < b ? a : b) < 0 ? 0
                                                                : a < b             ? a
                                                                                    : b; }>},
    {"max.relu.s32", lanes<[](s32 a, s32 b) { return (a < b ? b : a) < 0 ? 0
                                                     : a < b             ? b
                                                                         : a; }>},
    {"fns.b32", lanes<[](u32 mask, u32 base, s32 n) { return nth_bit(mask, base, n); }>},
};

}  // namespace

extern const HandlerTable kPairsHandlers;
const HandlerTable kPairsHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
