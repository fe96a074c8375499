// Comparisons, predicates and selection.
#include "exec/lanes/floats.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <bool ftz, class T>
SOFTGPU_INLINE auto number(T x) {
    if constexpr (ftz && std::is_same_v<T, f16>)
        return widen((x.bits & 0x7c00) == 0 ? f16{u16(x.bits & 0x8000)} : x);
    else if constexpr (kIsHalf<T>)
        return widen(x);
    else
        return in<ftz>(x);
}

template <class T>
const Op* select(const Op* op, Warp* warp) {
    const T *a = slot<T>(warp, op->a), *b = slot<T>(warp, op->b);
    const u32 p = predicate(warp, op->c);
    T* to = result<T>(op, warp);
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < kLanes; ++i) to[i] = (p & kBit[i]) ? a[i] : b[i];
    finish<T>(op, warp);
    return op + 1;
}

enum class Logic { move, invert, both, either, differ };
template <Logic logic>
const Op* predicates(const Op* op, Warp* warp) {
    const u32 a = predicate(warp, op->a);
    u32 bits = a;
    if constexpr (logic == Logic::invert) bits = ~a;
    if constexpr (logic == Logic::both) bits = a & predicate(warp, op->b);
    if constexpr (logic == Logic::either) bits = a | predicate(warp, op->b);
    if constexpr (logic == Logic::differ) bits = a ^ predicate(warp, op->b);
    set_predicate(warp, op->d, bits);
    return op + 1;
}

template <class T>
const Op* gang_select(const Op* op, Gang* gang) {
    const u32 a = op->a, b = op->b, c = op->c, d = op->d;
    for (u32 w = 0; w < gang->count; ++w) {
        std::byte* slots = gang->slots[w];
        const u32 p = *reinterpret_cast<const u32*>(slots + c);
        const T *yes = slot_of<T>(slots, a), *no = slot_of<T>(slots, b);
        T* to = slot_of<T>(slots, d);
        SOFTGPU_VECTORISE
        for (u32 i = 0; i < kLanes; ++i) to[i] = (p & kBit[i]) ? yes[i] : no[i];
    }
    return op + 1;
}

#define EQUALITY(T, N)                                               \
    {"setp.eq." N, test<[](T a, T b) -> bool { return (a == b); }>}, \
        {"setp.ne." N, test<[](T a, T b) -> bool { return (a != b); }>},
#define ORDER(T, N)                                                      \
    {"setp.lt." N, test<[](T a, T b) -> bool { return (a < b); }>},      \
        {"setp.le." N, test<[](T a, T b) -> bool { return (a <= b); }>}, \
        {"setp.gt." N, test<[](T a, T b) -> bool { return (a > b); }>},  \
        {"setp.ge." N, test<[](T a, T b) -> bool { return (a >= b); }>},

#define FLOAT_TEST(NAME, T, FTZ, EXPRESSION)                \
    {NAME, test<[](T x, T y) -> bool {                      \
         const auto a = number<FTZ>(x), b = number<FTZ>(y); \
         return (EXPRESSION);                               \
     }>},
#define FLOATS(T, FTZ, N)                                                                                    \
    FLOAT_TEST("setp.eq." N, T, FTZ, a == b)                                                                 \
    FLOAT_TEST("setp.lt." N, T, FTZ, a < b) FLOAT_TEST("setp.ne." N, T, FTZ, a<b || a> b)                    \
        FLOAT_TEST("setp.le." N, T, FTZ, a <= b) FLOAT_TEST("setp.gt." N, T, FTZ, a > b)                     \
            FLOAT_TEST("setp.ge." N, T, FTZ, a >= b) FLOAT_TEST("setp.equ." N, T, FTZ, !(a < b || a > b))    \
                FLOAT_TEST("setp.neu." N, T, FTZ, a != b) FLOAT_TEST("setp.ltu." N, T, FTZ, !(a >= b))       \
                    FLOAT_TEST("setp.leu." N, T, FTZ, !(a > b)) FLOAT_TEST("setp.gtu." N, T, FTZ, !(a <= b)) \
                        FLOAT_TEST("setp.geu." N, T, FTZ, !(a < b))                                          \
                            FLOAT_TEST("setp.num." N, T, FTZ, !is_nan(a) && !is_nan(b))                      \
                                FLOAT_TEST("setp.nan." N, T, FTZ, is_nan(a) || is_nan(b))

template <class T>
constexpr T kExponent = sizeof(T) == 4 ? T(0x7f800000u) : T(0x7ff0000000000000u);
template <class T>
constexpr T kSize = T(~T(0) >> 1);

#define PROPERTIES(U, N)                                                                                   \
    {"testp.finite." N, test<[](U a) -> bool { return ((a & kExponent<U>) != kExponent<U>); }>},           \
        {"testp.infinite." N, test<[](U a) -> bool { return ((a & kSize<U>) == kExponent<U>); }>},         \
        {"testp.number." N, test<[](U a) -> bool { return ((a & kSize<U>) <= kExponent<U>); }>},           \
        {"testp.notanumber." N, test<[](U a) -> bool { return ((a & kSize<U>) > kExponent<U>); }>},        \
        {"testp.normal." N,                                                                                \
         test<[](U a) -> bool { return (a & kExponent<U>) != 0 && (a & kExponent<U>) != kExponent<U>; }>}, \
        {"testp.subnormal." N,                                                                             \
         test<[](U a) -> bool { return (a & kExponent<U>) == 0 && (a & kSize<U>) != 0; }>},

const HandlerEntry kEntries[] = {
    EQUALITY(u16, "b16") EQUALITY(u32, "b32") EQUALITY(u64, "b64") ORDER(u16, "u16") ORDER(u32, "u32")
        ORDER(u64, "u64") ORDER(s16, "s16") ORDER(s32, "s32") ORDER(s64, "s64") FLOATS(f32, false, "f32")
            FLOATS(f32, true, "ftz.f32") FLOATS(f64, false, "f64") FLOATS(f16, true, "ftz.f16") FLOATS(f16, false, "f16") FLOATS(
                bf16, false, "bf16") PROPERTIES(u32, "f32") PROPERTIES(u64, "f64"){"selp.b32", {select<u32>, gang_select<u32>, true}},
    {"selp.b64", {select<u64>, gang_select<u64>, true}},
    {"slct.b32.s32", lanes<[](u32 a, u32 b, s32 c) { return c >= 0 ? a : b; }>},
    {"slct.b64.s32", lanes<[](u64 a, u64 b, s32 c) { return c >= 0 ? a : b; }>},
    {"slct.b32.f32", lanes<[](u32 a, u32 b, f32 c) { return c >= 0 ? a : b; }>},
    {"slct.b64.f32", lanes<[](u64 a, u64 b, f32 c) { return c >= 0 ? a : b; }>},
    {"slct.ftz.b32.f32", lanes<[](u32 a, u32 b, f32 c) { return flush(c) >= 0 ? a : b; }>},
    {"slct.ftz.b64.f32", lanes<[](u64 a, u64 b, f32 c) { return flush(c) >= 0 ? a : b; }>},
    {"mov.pred", as_pure(in_turn<predicates<Logic::move>>)},
    {"not.pred", as_pure(in_turn<predicates<Logic::invert>>)},
    {"and.pred", as_pure(in_turn<predicates<Logic::both>>)},
    {"or.pred", as_pure(in_turn<predicates<Logic::either>>)},
    {"xor.pred", as_pure(in_turn<predicates<Logic::differ>>)},
};

}  // namespace

extern const HandlerTable kCompareHandlers;
const HandlerTable kCompareHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
