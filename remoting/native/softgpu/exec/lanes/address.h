// Where a warp's memory access goes. The common cases cost one check for the warp: all lanes in a row, all at one
// address, or all within the allocation that this instruction met last. The rest is resolved lane by lane.
#pragma once

#include "exec/lanes/lanes.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

enum class Where { global, shared32, shared64, local, generic };  // shared32: the address is in a 32-bit register
enum class Shape { fault, row, one, scattered };

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
        return end >= first && cache_range(op, warp, first, end) ? reinterpret_cast<std::byte*>(first) : nullptr;
    }
}

template <Where where>
__attribute__((noinline)) bool resolve_each(const Op* op, Warp* warp, u32 bytes, const char* action) {
    const Address<where>* a = slot<Address<where>>(warp, op->a);
    u64 addresses[kLanes];
    for (u32 i = 0; i < kLanes; ++i) addresses[i] = u64(a[i]) + op->imm + generic_base<where>();
    return resolve_lanes(op, warp, addresses, bytes, action);
}

struct Place {
    Shape shape;
    std::byte* base;             // row, one
    std::byte* const* pointers;  // scattered; active lanes only
};

SOFTGPU_INLINE std::byte* pointer_of(const Place& place, u32 lane, u32 bytes) {
    if (place.shape == Shape::row) return place.base + lane * bytes;
    return place.shape == Shape::one ? place.base : place.pointers[lane];
}

// Local memory: each lane has its own, at one stride from the next.
SOFTGPU_INLINE Place locate_local(const Op* op, Warp* warp, u32 bytes, const char* action) {
    const u64* a = slot<u64>(warp, op->a);
    const u64 stride = warp->block->local_stride, imm = op->imm;
    u64 highest = 0, bits = 0;
    const u32 mask = warp->mask;
    const u64 base = reinterpret_cast<u64>(warp->block->local) + u64(warp->index) * kLanes * stride;
    u64* pointers = reinterpret_cast<u64*>(warp->pointers);
#pragma GCC ivdep
    for (u32 i = 0; i < kLanes; ++i) {
        const u64 at = (mask & kBit[i]) ? a[i] + imm : 0;
        highest = at > highest ? at : highest;
        bits |= at;
        pointers[i] = base + i * stride + at;
    }
    if (SOFTGPU_LIKELY(highest < stride && stride - highest >= bytes && (bits & (bytes - 1)) == 0)) {
        return {Shape::scattered, nullptr, warp->pointers};
    }
    return {resolve_each<Where::local>(op, warp, bytes, action) ? Shape::scattered : Shape::fault, nullptr,
            warp->pointers};
}

template <Where where, u32 bytes>
SOFTGPU_INLINE Place locate(const Op* op, Warp* warp, const char* action) {
    if constexpr (where == Where::local) return locate_local(op, warp, bytes, action);
    using A = Address<where>;
    const A* a = slot<A>(warp, op->a);
    const u64 imm = op->imm;
    const u32 mask = warp->mask;
    const A first = a[__builtin_ctz(mask)];
    const u64 start = u64(first) + imm;
    if (SOFTGPU_LIKELY(mask == kAllLanes)) {
        A off_row = 0;
#pragma GCC ivdep
        for (u32 i = 0; i < kLanes; ++i) off_row |= (a[i] - first) ^ A(i * bytes);
        if (off_row == 0 && (start & (bytes - 1)) == 0) {
            std::byte* base = within<where>(op, warp, start, kLanes * bytes);
            if (SOFTGPU_LIKELY(base != nullptr)) return {Shape::row, base, nullptr};
        }
    }
    A lowest = first, highest = first, bits = 0;
#pragma GCC ivdep
    for (u32 i = 0; i < kLanes; ++i) {
        const A at = (mask & kBit[i]) ? a[i] : first;
        lowest = at < lowest ? at : lowest;
        highest = at > highest ? at : highest;
        bits |= at ^ first;
    }
    if (((bits | start) & (bytes - 1)) == 0) {
        // A span of nearly 2^64 would wrap around to a length that fits anywhere.
        const u64 low = u64(lowest) + imm, span = u64(highest - lowest), length = span + bytes;
        std::byte* base = length > span ? within<where>(op, warp, low, length) : nullptr;
        if (SOFTGPU_LIKELY(base != nullptr)) {
            if (bits == 0) return {Shape::one, base, nullptr};
            const u64 shift = reinterpret_cast<u64>(base) - u64(lowest);
            u64* pointers = reinterpret_cast<u64*>(warp->pointers);
#pragma GCC ivdep
            for (u32 i = 0; i < kLanes; ++i) pointers[i] = shift + u64(a[i]);
            return {Shape::scattered, nullptr, warp->pointers};
        }
    }
    return {resolve_each<where>(op, warp, bytes, action) ? Shape::scattered : Shape::fault, nullptr, warp->pointers};
}

}  // namespace
}  // namespace softgpu::SOFTGPU_ISA
