// Atomics on 16 bytes. Op::imm points to the slots of the result, the operand and, to swap, what to put
// there: of each the low half first. The address, a generic one, is in a.
#include "exec/rare/rare.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

using u128 = unsigned __int128;

SOFTGPU_INLINE u128 read_wide(Warp* warp, const u32* slots, u32 lane) {
    return u128(slot<u64>(warp, slots[1])[lane]) << 64 | slot<u64>(warp, slots[0])[lane];
}

// What was there. Without `expected` there is always what is expected.
SOFTGPU_INLINE u128 exchange(std::byte* at, const u128* expected, u128 desired) {
    u128* const place = reinterpret_cast<u128*>(at);
    if (expected) return __sync_val_compare_and_swap(place, *expected, desired);
    u128 before;
    __builtin_memcpy(&before, at, sizeof before);  // may be torn, and is not taken then
    for (;;) {
        const u128 there = __sync_val_compare_and_swap(place, before, desired);
        if (there == before) return before;
        before = there;
    }
}

template <bool compare>
const Op* exchange_wide(const Op* op, Warp* warp) {
    const u32* slots = reinterpret_cast<const u32*>(op->imm);
    if (!resolve_lanes(op, warp, slot<u64>(warp, op->a), sizeof(u128), "atomic access")) return nullptr;
    for (u32 left = warp->mask; left != 0; left &= left - 1) {
        const u32 lane = u32(__builtin_ctz(left));
        const u128 first = read_wide(warp, slots + 2, lane);
        const u128 desired = compare ? read_wide(warp, slots + 4, lane) : first;
        const u128 before = exchange(warp->pointers[lane], compare ? &first : nullptr, desired);
        slot<u64>(warp, slots[0])[lane] = u64(before);
        slot<u64>(warp, slots[1])[lane] = u64(before >> 64);
    }
    warp->budget -= 32;  // a loop around an atomic may wait for other lanes
    return op + 1;
}

const HandlerEntry kEntries[] = {
    {"atom.generic.exch.b128", exchange_wide<false>},
    {"atom.generic.cas.b128", exchange_wide<true>},
};

}  // namespace

extern const HandlerTable kWideHandlers;
const HandlerTable kWideHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
