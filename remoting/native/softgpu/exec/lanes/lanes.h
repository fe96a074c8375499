// How handlers work on 32 lanes at once. Every file in this folder is compiled once for each instruction set,
// in a namespace of its own. Nothing here may have external linkage except the tables: the linker would keep
// one copy of an inline function, perhaps the one that this machine cannot run.
#pragma once

#include <type_traits>
#include <utility>

#include "exec/op.h"

#ifndef SOFTGPU_ISA
#error "SOFTGPU_ISA names the instruction set's namespace"
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <cfenv>
#endif

#define SOFTGPU_INLINE inline __attribute__((always_inline))
// Before a loop whose turns do not depend on each other.
#if defined(__clang__)
#define SOFTGPU_VECTORISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define SOFTGPU_VECTORISE _Pragma("GCC ivdep")
#endif
#define SOFTGPU_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define SOFTGPU_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

namespace softgpu::SOFTGPU_ISA {
namespace {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;

// Sixteen-bit floats, by their bits. They live in 32-bit slots like all narrow types.
struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};

template <class To, class From>
SOFTGPU_INLINE To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

// What a slot holds for a value of type T, and how to get from one to the other. The upper bits of a narrow
// value's lane are its sign or zero extension when a handler wrote it, and mean nothing to a reader.
template <class T>
struct Box {
    using Held = T;
    static SOFTGPU_INLINE T open(Held held) { return held; }
    static SOFTGPU_INLINE Held close(T value) { return value; }
};
template <class T, class Wide>
struct NarrowBox {
    using Held = Wide;
    static SOFTGPU_INLINE T open(Held held) { return static_cast<T>(held); }
    static SOFTGPU_INLINE Held close(T value) { return static_cast<Held>(value); }
};
template <>
struct Box<u8> : NarrowBox<u8, u32> {};
template <>
struct Box<u16> : NarrowBox<u16, u32> {};
template <>
struct Box<s8> : NarrowBox<s8, s32> {};
template <>
struct Box<s16> : NarrowBox<s16, s32> {};
template <class T>
struct BitsBox {
    using Held = u32;
    static SOFTGPU_INLINE T open(Held held) { return T{static_cast<u16>(held)}; }
    static SOFTGPU_INLINE Held close(T value) { return value.bits; }
};
template <>
struct Box<f16> : BitsBox<f16> {};
template <>
struct Box<bf16> : BitsBox<bf16> {};

template <class T>
using Held = typename Box<T>::Held;

template <class T>
SOFTGPU_INLINE Held<T>* slot(Warp* warp, u32 offset) {
    return static_cast<Held<T>*>(__builtin_assume_aligned(warp->slots + offset, 64));
}
SOFTGPU_INLINE u32& predicate(Warp* warp, u32 offset) {
    return *reinterpret_cast<u32*>(warp->slots + offset);
}

alignas(128) constexpr u32 kBit[32] = {1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,
                                       1u << 7,  1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13,
                                       1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20,
                                       1u << 21, 1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27,
                                       1u << 28, 1u << 29, 1u << 30, 1u << 31};

// Lanes of `mask` from `from`, the others stay.
template <class T>
__attribute__((noinline)) void blend(T* __restrict to, const T* __restrict from, u32 mask) {
    to = static_cast<T*>(__builtin_assume_aligned(to, 64));
    from = static_cast<const T*>(__builtin_assume_aligned(from, 64));
    for (u32 i = 0; i < kLanes; ++i) to[i] = (mask & kBit[i]) ? from[i] : to[i];
}

// 32 lanes of 0 or -1 to 32 bits.
SOFTGPU_INLINE u32 pack_bits(const s32* lanes) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    const u32 low = _mm512_movepi32_mask(_mm512_load_si512(lanes));
    const u32 high = _mm512_movepi32_mask(_mm512_load_si512(lanes + 16));
    return low | high << 16;
#elif defined(__AVX2__)
    u32 bits = 0;
    for (int i = 0; i < 4; ++i) {
        bits |= u32(_mm256_movemask_ps(_mm256_load_ps(reinterpret_cast<const float*>(lanes + 8 * i))))
                << (8 * i);
    }
    return bits;
#elif defined(__SSE2__)
    u32 bits = 0;
    for (int i = 0; i < 8; ++i) {
        bits |= u32(_mm_movemask_ps(_mm_load_ps(reinterpret_cast<const float*>(lanes + 4 * i)))) << (4 * i);
    }
    return bits;
#else
    u32 bits = 0;
    for (u32 i = 0; i < kLanes; ++i) bits |= u32(lanes[i]) & kBit[i];
    return bits;
#endif
}

SOFTGPU_INLINE void set_predicate(Warp* warp, u32 offset, u32 bits) {
    u32& p = predicate(warp, offset);
    p = (p & ~warp->mask) | (bits & warp->mask);
}

SOFTGPU_INLINE u32 operand(const Op* op, int number) {
    switch (number) {
        case 0:
            return op->a;
        case 1:
            return op->b;
        case 2:
            return op->c;
        default:
            return op->e;
    }
}

// `out[i] = f(in[i]...)` for all lanes, whatever the mask. An operand may be the result's own slot, and never
// overlaps it otherwise.
template <auto f, class D, class... S>
SOFTGPU_INLINE void apply(Held<D>* out, const Held<S>*... in) {
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < kLanes; ++i) out[i] = Box<D>::close(f(Box<S>::open(in[i])...));
}

template <class D>
SOFTGPU_INLINE Held<D>* result(const Op* op, Warp* warp) {
    Held<D>* out = slot<D>(warp, op->d);
    return SOFTGPU_LIKELY(!warp->partial) ? out : reinterpret_cast<Held<D>*>(warp->scratch);
}
template <class D>
SOFTGPU_INLINE void finish(const Op* op, Warp* warp) {
    if (SOFTGPU_LIKELY(!warp->partial)) return;
    using Bits = std::conditional_t<sizeof(Held<D>) == 8, u64, u32>;
    blend<Bits>(reinterpret_cast<Bits*>(warp->slots + op->d), reinterpret_cast<Bits*>(warp->scratch),
                warp->mask);
}

template <auto f>
const Op* warp_lanes(const Op* op, Warp* warp) {
    [&]<class D, class F, class... S>(D (F::*)(S...) const) {
        [&]<size_t... N>(std::index_sequence<N...>) {
            apply<f, D, S...>(result<D>(op, warp), slot<S>(warp, operand(op, N))...);
        }(std::index_sequence_for<S...>{});
        finish<D>(op, warp);
    }(&decltype(f)::operator());
    return op + 1;
}

template <class T>
SOFTGPU_INLINE Held<T>* slot_of(std::byte* slots, u32 offset) {
    return static_cast<Held<T>*>(__builtin_assume_aligned(slots + offset, 64));
}

template <auto f>
const Op* gang_lanes(const Op* op, Gang* gang) {
    [&]<class D, class F, class... S>(D (F::*)(S...) const) {
        [&]<size_t... N>(std::index_sequence<N...>) {
            const u32 d = op->d, in[] = {operand(op, N)...}, count = gang->count;
            for (u32 w = 0; w < count; ++w) {
                std::byte* slots = gang->slots[w];
                apply<f, D, S...>(slot_of<D>(slots, d), slot_of<S>(slots, in[N])...);
            }
        }(std::index_sequence_for<S...>{});
    }(&decltype(f)::operator());
    return op + 1;
}

// The handlers that compute d from a, b, c and e, lane by lane, with a function of their types.
template <auto f>
constexpr Handlers lanes{warp_lanes<f>, gang_lanes<f>, true};

template <auto f, class... S>
SOFTGPU_INLINE u32 test_lanes(const Held<S>*... in) {
    alignas(64) s32 bits[kLanes];
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < kLanes; ++i) bits[i] = f(Box<S>::open(in[i])...) ? -1 : 0;
    return pack_bits(bits);
}

template <auto f>
const Op* warp_test(const Op* op, Warp* warp) {
    [&]<class F, class... S>(bool (F::*)(S...) const) {
        [&]<size_t... N>(std::index_sequence<N...>) {
            set_predicate(warp, op->d, test_lanes<f, S...>(slot<S>(warp, operand(op, N))...));
        }(std::index_sequence_for<S...>{});
    }(&decltype(f)::operator());
    return op + 1;
}

template <auto f>
const Op* gang_test(const Op* op, Gang* gang) {
    [&]<class F, class... S>(bool (F::*)(S...) const) {
        [&]<size_t... N>(std::index_sequence<N...>) {
            const u32 d = op->d, in[] = {operand(op, N)...}, count = gang->count;
            for (u32 w = 0; w < count; ++w) {
                std::byte* slots = gang->slots[w];
                *reinterpret_cast<u32*>(slots + d) = test_lanes<f, S...>(slot_of<S>(slots, in[N])...);
            }
        }(std::index_sequence_for<S...>{});
    }(&decltype(f)::operator());
    return op + 1;
}

// The same for a function to bool, whose result is a predicate.
template <auto f>
constexpr Handlers test{warp_test<f>, gang_test<f>, true};

// For handlers that go on with the next instruction or find a fault, and nothing else.
template <Handler one>
const Op* each_in_turn(const Op* op, Gang* gang) {
    for (u32 w = 0; w < gang->count; ++w) {
        if (SOFTGPU_UNLIKELY(one(op, gang->warps[w]) == nullptr)) return nullptr;
    }
    return op + 1;
}
template <Handler one>
constexpr Handlers in_turn{one, each_in_turn<one>};

// The host's rounding mode while a handler runs. Data goes through memory, so nothing moves past the change.
enum class Round : u8 { nearest, zero, down, up };
class RoundingMode {
  public:
    explicit SOFTGPU_INLINE RoundingMode(Round mode) {
#if defined(__x86_64__)
        constexpr u32 kControl[] = {0x0000, 0x6000, 0x2000, 0x4000};
        before_ = _mm_getcsr();
        _mm_setcsr((before_ & ~0x6000u) | kControl[static_cast<int>(mode)]);
#else
        constexpr int kControl[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
        before_ = fegetround();
        fesetround(kControl[static_cast<int>(mode)]);
#endif
        asm volatile("" ::: "memory");
    }
    SOFTGPU_INLINE ~RoundingMode() {
        asm volatile("" ::: "memory");
#if defined(__x86_64__)
        _mm_setcsr(before_);
#else
        fesetround(before_);
#endif
    }

  private:
#if defined(__x86_64__)
    u32 before_;
#else
    int before_;
#endif
};

template <Round mode, Handler handler>
const Op* rounded(const Op* op, Warp* warp) {
    const RoundingMode scope(mode);
    return handler(op, warp);
}

}  // namespace
}  // namespace softgpu::SOFTGPU_ISA
