// atom and red: lane by lane, with the host's atomics, so that blocks on other threads see them. Shared
// memory belongs to one host thread and needs none when the address says that it is shared.
#include "exec/lanes/address.h"
#include "exec/lanes/floats.h"
#include "exec/sums.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

template <Where where>
constexpr bool kAlone = where == Where::shared32 || where == Where::shared64;

template <class T>
SOFTGPU_INLINE T load_now(std::byte* at) {
    T value;
    __atomic_load(reinterpret_cast<T*>(at), &value, __ATOMIC_RELAXED);
    return value;
}

// Replaces *at by f(*at) and returns what was there.
template <bool alone, class T, class F>
SOFTGPU_INLINE T update(std::byte* at, F f) {
    T* place = reinterpret_cast<T*>(at);
    if constexpr (alone) {
        const T before = *place;
        *place = f(before);
        return before;
    } else {
        T before = load_now<T>(at);
        for (;;) {
            T after = f(before);
            if (__atomic_compare_exchange(place, &before, &after, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                return before;
        }
    }
}

template <class T, Where where, auto f>
const Op* modify(const Op* op, Warp* warp) {
    const Place place = locate<where, sizeof(T)>(op, warp, "atomic access");
    if (SOFTGPU_UNLIKELY(place.shape == Shape::fault)) return nullptr;
    const T* b = reinterpret_cast<const T*>(slot<T>(warp, op->b));
    T* d = reinterpret_cast<T*>(slot<T>(warp, op->d));
    for (u32 left = warp->mask; left != 0; left &= left - 1) {
        const u32 i = u32(__builtin_ctz(left));
        const T operand = b[i];
        d[i] = update<kAlone<where>, T>(pointer_of(place, i, sizeof(T)),
                                        [operand](T x) { return f(x, operand); });
    }
    warp->budget -= 32;  // a loop around an atomic may wait for other lanes
    return op + 1;
}

// Gathers the warp's additions, if all its lanes add to the elements that are gathered for.
template <class T>
SOFTGPU_INLINE bool gather_sums(const Op* op, Warp* warp) {
    Sums& sums = *warp->block->sums;
    if (sums.width != sizeof(T)) return false;
    const u64* a = slot<u64>(warp, op->a);
    const T* b = slot<T>(warp, op->b);
    const u32 mask = warp->mask;
    const u64 shift = op->imm - sums.base, first = a[__builtin_ctz(mask)];
    u64 highest = 0, bits = 0, apart = 0;
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < kLanes; ++i) {
        const u64 address = (mask & kBit[i]) ? a[i] : first;
        const u64 at = address + shift;  // an address below the base is a very large one
        highest = at > highest ? at : highest;
        bits |= at;
        apart |= address ^ first;
    }
    if (highest >= sums.bytes || sums.bytes - highest < sizeof(T) || (bits & (sizeof(T) - 1)) != 0)
        return false;
    std::byte* const gathered = sums.gathered + shift;
    if (apart == 0) {
        T sum = 0;
        SOFTGPU_VECTORISE
        for (u32 i = 0; i < kLanes; ++i) sum += (mask & kBit[i]) ? b[i] : 0;
        *reinterpret_cast<T*>(gathered + first) += sum;
    } else if (mask == kAllLanes) {
        for (u32 i = 0; i < kLanes; ++i) *reinterpret_cast<T*>(gathered + a[i]) += b[i];
    } else {
        for (u32 left = mask; left != 0; left &= left - 1) {
            const u32 i = u32(__builtin_ctz(left));
            *reinterpret_cast<T*>(gathered + a[i]) += b[i];
        }
    }
    return true;
}

// An integer sum at one address needs one atomic for the warp when nobody asks for the old values.
template <class T, Where where>
const Op* accumulate(const Op* op, Warp* warp) {
    if constexpr (!kAlone<where>) {
        if (gather_sums<T>(op, warp)) return warp->budget -= 32, op + 1;
    }
    const Place place = locate<where, sizeof(T)>(op, warp, "atomic access");
    if (SOFTGPU_UNLIKELY(place.shape == Shape::fault)) return nullptr;
    const T* b = slot<T>(warp, op->b);
    warp->budget -= 32;
    if (place.shape == Shape::one) {
        T sum = 0;
        for (u32 i = 0; i < kLanes; ++i) sum += (warp->mask & kBit[i]) ? b[i] : 0;
        __atomic_fetch_add(reinterpret_cast<T*>(place.base), sum, __ATOMIC_SEQ_CST);
        return op + 1;
    }
    for (u32 left = warp->mask; left != 0; left &= left - 1) {
        const u32 i = u32(__builtin_ctz(left));
        T* at = reinterpret_cast<T*>(pointer_of(place, i, sizeof(T)));
        if constexpr (kAlone<where>)
            *at += b[i];
        else
            __atomic_fetch_add(at, b[i], __ATOMIC_SEQ_CST);
    }
    if constexpr (!kAlone<where>)
        open_sums(warp->block, warp->block->cache[op->site % kCacheEntries], sizeof(T));
    return op + 1;
}

template <class T, Where where>
const Op* compare_and_swap(const Op* op, Warp* warp) {
    const Place place = locate<where, sizeof(T)>(op, warp, "atomic access");
    if (SOFTGPU_UNLIKELY(place.shape == Shape::fault)) return nullptr;
    const Held<T>*b = slot<T>(warp, op->b), *c = slot<T>(warp, op->c);
    Held<T>* d = slot<T>(warp, op->d);
    for (u32 left = warp->mask; left != 0; left &= left - 1) {
        const u32 i = u32(__builtin_ctz(left));
        T expected = T(b[i]), desired = T(c[i]);
        T* at = reinterpret_cast<T*>(pointer_of(place, i, sizeof(T)));
        __atomic_compare_exchange(at, &expected, &desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        d[i] = expected;
    }
    warp->budget -= 32;
    return op + 1;
}

template <class T, bool two>
SOFTGPU_INLINE u32 add_halves(u32 a, u32 b) {
    const u32 low = to_half(f64(widen(T{u16(a)})) + widen(T{u16(b)})).bits;
    if constexpr (!two) return low;
    return low | u32(to_half(f64(widen(T{u16(a >> 16)})) + widen(T{u16(b >> 16)})).bits) << 16;
}
SOFTGPU_INLINE u32 add_bfloats(u32 a, u32 b) {
    const u32 low = to_bfloat(widen(bf16{u16(a)}) + widen(bf16{u16(b)})).bits;
    return low | u32(to_bfloat(widen(bf16{u16(a >> 16)}) + widen(bf16{u16(b >> 16)})).bits) << 16;
}

SOFTGPU_INLINE u16 add_one(u32 a, u32 b, f16) {
    return u16(add_halves<f16, false>(a, b));
}
SOFTGPU_INLINE u16 add_one(u32 a, u32 b, bf16) {
    return u16(add_bfloats(a & 0xffff, b & 0xffff));
}

// Halves alone: the two bytes that hold one, which live in a 32-bit slot.
template <class T, Where where>
const Op* add_half(const Op* op, Warp* warp) {
    const Place place = locate<where, 2>(op, warp, "atomic access");
    if (SOFTGPU_UNLIKELY(place.shape == Shape::fault)) return nullptr;
    const u32* b = slot<u32>(warp, op->b);
    u32* d = slot<u32>(warp, op->d);
    for (u32 left = warp->mask; left != 0; left &= left - 1) {
        const u32 i = u32(__builtin_ctz(left));
        const u32 operand = b[i];
        d[i] = update<false, u16>(pointer_of(place, i, 2),
                                  [operand](u16 x) { return add_one(x, operand, T{}); });
    }
    return op + 1;
}

#define INTEGERS(SPACE, WHERE, U, UN, S, SN, BN)                                                           \
    {"atom." SPACE ".add." BN, modify<U, WHERE, [](U a, U b) { return U(a + b); }>},                       \
        {"red." SPACE ".add." BN, in_turn<accumulate<U, WHERE>>},                                          \
        {"atom." SPACE ".and." BN, modify<U, WHERE, [](U a, U b) { return a & b; }>},                      \
        {"atom." SPACE ".or." BN, modify<U, WHERE, [](U a, U b) { return a | b; }>},                       \
        {"atom." SPACE ".xor." BN, modify<U, WHERE, [](U a, U b) { return a ^ b; }>},                      \
        {"atom." SPACE ".exch." BN, modify<U, WHERE, [](U a, U b) { return b; }>},                         \
        {"atom." SPACE ".min." UN, modify<U, WHERE, [](U a, U b) { return b < a ? b : a; }>},              \
        {"atom." SPACE ".max." UN, modify<U, WHERE, [](U a, U b) { return a < b ? b : a; }>},              \
        {"atom." SPACE ".min." SN, modify<S, WHERE, [](S a, S b) { return b < a ? b : a; }>},              \
        {"atom." SPACE ".max." SN, modify<S, WHERE, [](S a, S b) { return a < b ? b : a; }>},              \
        {"atom." SPACE ".inc." UN, modify<U, WHERE, [](U a, U b) { return (a >= b) ? U(0) : U(a + 1); }>}, \
        {"atom." SPACE ".dec." UN,                                                                         \
         modify<U, WHERE, [](U a, U b) { return (a == 0 || a > b) ? b : U(a - 1); }>},                     \
        {"atom." SPACE ".cas." BN, compare_and_swap<U, WHERE>},

#define SPACE(NAME, WHERE)                                                                                  \
    INTEGERS(NAME, WHERE, u32, "u32", s32, "s32", "b32")                                                    \
    INTEGERS(NAME, WHERE, u64, "u64", s64, "s64", "b64"){"atom." NAME ".cas.b16",                           \
                                                         compare_and_swap<u16, WHERE>},                     \
        {"atom." NAME ".add.f32", modify<f32, WHERE, [](f32 a, f32 b) { return one_nan(a + b); }>},         \
        {"atom." NAME ".add.f64", modify<f64, WHERE, [](f64 a, f64 b) { return a + b; }>},                  \
        {"atom." NAME ".add.f16", add_half<f16, WHERE>}, {"atom." NAME ".add.bf16", add_half<bf16, WHERE>}, \
        {"atom." NAME ".add.f16x2",                                                                         \
         modify<u32, WHERE, [](u32 a, u32 b) { return add_halves<f16, true>(a, b); }>},                     \
        {"atom." NAME ".add.bf16x2", modify<u32, WHERE, [](u32 a, u32 b) { return add_bfloats(a, b); }>},

const HandlerEntry kEntries[] = {SPACE("global", Where::global) SPACE("shared32", Where::shared32)
                                     SPACE("shared64", Where::shared64) SPACE("generic", Where::generic)};

}  // namespace

extern const HandlerTable kAtomicHandlers;
const HandlerTable kAtomicHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
