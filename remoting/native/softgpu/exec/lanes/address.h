// Where a warp's memory access goes. The common cases cost one check for the warp: all lanes in a row, all at
// one address, or all within the allocation that this instruction met last. The rest is resolved lane by
// lane.
#pragma once

#include "exec/lanes/lanes.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

enum class Where {
    global,
    shared32,
    shared64,
    local,
    generic
};  // shared32: the address is in a 32-bit register

template <Where where>
using Address = std::conditional_t<where == Where::shared32, u32, u64>;

template <Where where>
SOFTGPU_INLINE u64 generic_base() {
    if constexpr (where == Where::shared32 || where == Where::shared64) return Windows::shared;
    if constexpr (where == Where::local) return Windows::local;
    return 0;
}

// The host's pointer to [first, first + length) if one check can tell that it is there.
template <Where where>
SOFTGPU_INLINE std::byte* within(const Op* op, Warp* warp, u64 first, u64 length) {
    Block* block = warp->block;
    if constexpr (where == Where::shared32 || where == Where::shared64) {
        const bool inside = first <= block->shared_bytes && length <= block->shared_bytes - first;
        return SOFTGPU_LIKELY(inside) ? block->shared + first : nullptr;
    } else {
        const CachedRange& cached = block->cache[op->site % kCacheEntries];
        const u64 end = first + length;
        if (SOFTGPU_LIKELY(first >= cached.base && end <= cached.end && end >= first)) {
            return reinterpret_cast<std::byte*>(first);
        }
        return end >= first && cache_range(op, warp, first, end) ? reinterpret_cast<std::byte*>(first)
                                                                 : nullptr;
    }
}

template <Where where>
__attribute__((noinline)) bool resolve_each(const Op* op, Warp* warp, u32 bytes, const char* action) {
    const Address<where>* a = slot<Address<where>>(warp, op->a);
    u64 addresses[kLanes];
    for (u32 i = 0; i < kLanes; ++i) addresses[i] = u64(a[i]) + op->imm + generic_base<where>();
    return resolve_lanes(op, warp, addresses, bytes, action);
}

// How the lanes' addresses lie to each other. Half a warp is what a block of 16 columns makes of a row.
enum class Shape : u32 {
    fault,
    row,        // lane i at base + i * bytes
    one,        // all at base
    half_rows,  // lanes 0-15 in a row from base, lanes 16-31 in one from second
    half_ones,  // lanes 0-15 at base, lanes 16-31 at second
    twice,      // lane i + 16 where lane i is; pointers
    scattered,  // pointers
};

struct Place {
    Shape shape;
    std::byte *base, *second;
    std::byte* const* pointers;  // of active lanes
    u64 delta = 0;               // to add to them
};

SOFTGPU_INLINE std::byte* pointer_of(const Place& place, u32 lane, u32 bytes) {
    switch (place.shape) {
        case Shape::row:
            return place.base + lane * bytes;
        case Shape::one:
            return place.base;
        case Shape::half_rows:
            return (lane < 16 ? place.base : place.second) + (lane & 15) * bytes;
        case Shape::half_ones:
            return lane < 16 ? place.base : place.second;
        default:
            return place.pointers[lane] + place.delta;
    }
}

// Local memory: each lane has its own, at one stride from the next.
SOFTGPU_INLINE Place locate_local(const Op* op, Warp* warp, u32 bytes, const char* action) {
    const u64* a = slot<u64>(warp, op->a);
    const u64 stride = warp->block->local_stride, imm = op->imm;
    u64 highest = 0, bits = 0;
    const u32 mask = warp->mask;
    const u64 base = reinterpret_cast<u64>(warp->block->local) + u64(warp->index) * kLanes * stride;
    u64* pointers = reinterpret_cast<u64*>(warp->pointers);
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < kLanes; ++i) {
        const u64 at = (mask & kBit[i]) ? a[i] + imm : 0;
        highest = at > highest ? at : highest;
        bits |= at;
        pointers[i] = base + i * stride + at;
    }
    const bool good = highest < stride && stride - highest >= bytes && (bits & (bytes - 1)) == 0;
    const bool found = SOFTGPU_LIKELY(good) || resolve_each<Where::local>(op, warp, bytes, action);
    return {found ? Shape::scattered : Shape::fault, nullptr, nullptr, warp->pointers, 0};
}

// The shape of 32 addresses that are neither in a row nor all equal, all active.
template <class A>
SOFTGPU_INLINE Shape halves(const A* a, u32 bytes) {
    A off_rows = 0, off_ones = 0, off_twice = 0;
    const A first = a[0], second = a[16];
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < kLanes; ++i) {
        const A from = (i & 16) ? second : first;
        off_rows |= (a[i] - from) ^ A((i & 15) * bytes);
        off_ones |= a[i] ^ from;
    }
    if (off_rows == 0) return Shape::half_rows;
    if (off_ones == 0) return Shape::half_ones;
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < 16; ++i) off_twice |= a[i] ^ a[i + 16];
    return off_twice == 0 ? Shape::twice : Shape::scattered;
}

// Where accesses of up to `length` bytes from each lane's address plus `imm` go. Rows are of elements of
// `bytes`. Aligned to `bytes`. Shape::fault stands for "cannot be told by one check" here.
template <Where where>
SOFTGPU_INLINE Place survey(const Op* op, Warp* warp, u32 bytes, u64 imm, u64 length, u64* pointers) {
    using A = Address<where>;
    const A* a = slot<A>(warp, op->a);
    const u32 mask = warp->mask;
    const A first = a[__builtin_ctz(mask)];
    const u64 start = u64(first) + imm;
    if (SOFTGPU_LIKELY(mask == kAllLanes)) {
        A off_row = 0;
        SOFTGPU_VECTORISE
        for (u32 i = 0; i < kLanes; ++i) off_row |= (a[i] - first) ^ A(i * bytes);
        if (off_row == 0 && (start & (bytes - 1)) == 0) {
            std::byte* base = within<where>(op, warp, start, (kLanes - 1) * bytes + length);
            if (SOFTGPU_LIKELY(base != nullptr)) return {Shape::row, base, nullptr, nullptr, 0};
        }
    }
    A lowest = first, highest = first, bits = 0;
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < kLanes; ++i) {
        const A at = (mask & kBit[i]) ? a[i] : first;
        lowest = at < lowest ? at : lowest;
        highest = at > highest ? at : highest;
        bits |= at ^ first;
    }
    if (((bits | start) & (bytes - 1)) != 0) return {Shape::fault, nullptr, nullptr, nullptr, 0};
    // A span of nearly 2^64 would wrap around to a length that fits anywhere.
    const u64 reach = u64(highest - lowest) + length;
    std::byte* base = reach >= length ? within<where>(op, warp, u64(lowest) + imm, reach) : nullptr;
    if (SOFTGPU_UNLIKELY(base == nullptr)) return {Shape::fault, nullptr, nullptr, nullptr, 0};
    if (bits == 0) return {Shape::one, base, nullptr, nullptr, 0};
    const u64 shift = reinterpret_cast<u64>(base) - u64(lowest);
    const Shape shape = mask == kAllLanes ? halves<A>(a, bytes) : Shape::scattered;
    if (shape == Shape::half_rows || shape == Shape::half_ones) {
        return {shape, reinterpret_cast<std::byte*>(shift + u64(a[0])),
                reinterpret_cast<std::byte*>(shift + u64(a[16])), nullptr, 0};
    }
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < kLanes; ++i) pointers[i] = shift + u64(a[i]);
    return {shape, nullptr, nullptr, reinterpret_cast<std::byte* const*>(pointers), 0};
}

template <Where where, u32 bytes>
SOFTGPU_INLINE Place locate(const Op* op, Warp* warp, const char* action) {
    if constexpr (where == Where::local) return locate_local(op, warp, bytes, action);
    // One variable from end to end: a copy of what has just been stored piece by piece would wait for the
    // stores.
    Place place = survey<where>(op, warp, bytes, op->imm, bytes, reinterpret_cast<u64*>(warp->pointers));
    if (SOFTGPU_UNLIKELY(place.shape == Shape::fault)) {
        if (resolve_each<where>(op, warp, bytes, action)) place.shape = Shape::scattered;
        place.pointers = warp->pointers;
    }
    return place;
}

// Do the 16 addresses go up by `bytes` each?
template <u32 bytes, class A>
SOFTGPU_INLINE bool steps(const A* a) {
#if defined(__AVX512F__)
    if constexpr (sizeof(A) == 8) {
        const __m512i low = _mm512_add_epi64(
            _mm512_set1_epi64(s64(a[0])),
            _mm512_set_epi64(7 * bytes, 6 * bytes, 5 * bytes, 4 * bytes, 3 * bytes, 2 * bytes, bytes, 0));
        const __m512i high = _mm512_add_epi64(low, _mm512_set1_epi64(8 * bytes));
        return __mmask8(_mm512_cmpneq_epi64_mask(low, _mm512_load_si512(a)) |
                        _mm512_cmpneq_epi64_mask(high, _mm512_load_si512(a + 8))) == 0;
    }
    if constexpr (sizeof(A) == 4) {
        const __m512i numbers = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        const __m512i wanted = _mm512_add_epi32(_mm512_set1_epi32(s32(a[0])),
                                                _mm512_mullo_epi32(numbers, _mm512_set1_epi32(bytes)));
        return _mm512_cmpneq_epi32_mask(wanted, _mm512_load_si512(a)) == 0;
    }
#endif
    A off = 0;
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < 16; ++i) off |= (a[i] - a[0]) ^ A(i * bytes);
    return off == 0;
}

// Where the halves of a gang's warp find their lanes' elements, if nothing has to be looked up: both null if
// not so. A block of 16 columns makes rows of half a warp; in a whole row the second half follows the first.
struct Halves {
    std::byte *first = nullptr, *second = nullptr;
};

template <Where where, u32 bytes, u32 step>
SOFTGPU_INLINE Halves halves_of(const Op* op, const Gang* gang, u32 w) {
    using A = Address<where>;
    const A* a = slot_of<A>(gang->slots[w], op->a);
    if (!steps<step>(a) || !steps<step>(a + 16)) return {};
    const u64 first = u64(a[0]) + op->imm, second = u64(a[16]) + op->imm;
    const u64 lowest = first < second ? first : second, highest = first < second ? second : first;
    constexpr u64 length = 15 * step + bytes;
    if (((first | second) & (bytes - 1)) != 0) return {};
    const Block* block = gang->block;
    std::byte* base = nullptr;
    if constexpr (where == Where::shared32 || where == Where::shared64) {
        if (highest > block->shared_bytes || length > block->shared_bytes - highest) return {};
        base = block->shared;
    } else {
        const CachedRange& cached = block->cache[op->site % kCacheEntries];
        const u64 end = highest + length;
        if (lowest < cached.base || end > cached.end || end < highest) return {};
    }
    return {base + first, base + second};
}

// What a `locate` instruction leaves in the frame for the accesses that follow it in its block: they use the
// same address plus different constants, and are of one size. One survey then stands for all of them.
struct Kept {
    Shape shape;  // fault: each access looks for itself
    u64 imm;      // what was added to the addresses in the survey
    std::byte *base, *second;
    u64 pointers[kLanes];
};
static_assert(sizeof(Kept) <= kKeptBytes);

SOFTGPU_INLINE Kept* kept_at(const Op* op, Warp* warp) {
    return reinterpret_cast<Kept*>(warp->slots + u32(op->jump));
}

// Where this access goes by what was kept; fault where nothing useful was.
SOFTGPU_INLINE Place moved(const Op* op, Warp* warp) {
    const Kept* kept = kept_at(op, warp);
    const u64 delta = op->imm - kept->imm;
    return {kept->shape, kept->base + delta, kept->second + delta,
            reinterpret_cast<std::byte* const*>(kept->pointers), delta};
}

}  // namespace
}  // namespace softgpu::SOFTGPU_ISA
