// Instructions by which the lanes of a warp see each other: shuffles, votes, matches, reductions.
#include "exec/lanes/lanes.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

// The lanes that take part: those of the member mask in `offset` that live, and the executing ones. Zero when some
// are not here yet; the warp then waits.
SOFTGPU_INLINE u32 gather_members(const Op* op, Warp* warp, u32 offset) {
    if (offset == kNoSlot) return warp->mask;  // the forms without .sync
    const u32 members = slot<u32>(warp, offset)[__builtin_ctz(warp->mask)] & warp->live;
    if (SOFTGPU_LIKELY((members & ~warp->mask) == 0)) return warp->mask;
    wait_for_members(op, warp, members);
    return 0;
}

// d, predicate e = shfl a, b, c; members in jump.
enum class Way { up, down, butterfly, index };
template <Way way>
const Op* shuffle(const Op* op, Warp* warp) {
    if (SOFTGPU_UNLIKELY(gather_members(op, warp, u32(op->jump)) == 0)) return nullptr;
    const u32 *a = slot<u32>(warp, op->a), *b = slot<u32>(warp, op->b), *c = slot<u32>(warp, op->c);
    alignas(64) u32 from[kLanes];
    alignas(64) s32 valid[kLanes];
    for (u32 lane = 0; lane < kLanes; ++lane) {
        const u32 step = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
        const u32 least = lane & segment, most = least | (clamp & ~segment & 31);
        u32 j;
        bool good;
        if constexpr (way == Way::up) {
            j = lane - step, good = s32(j) >= s32(most);
        } else {
            j = way == Way::down ? lane + step : way == Way::butterfly ? lane ^ step : least | (step & ~segment & 31);
            good = j <= most;
        }
        from[lane] = good ? j & 31 : lane;
        valid[lane] = good ? -1 : 0;
    }
    alignas(64) u32 values[kLanes];
    for (u32 lane = 0; lane < kLanes; ++lane) values[lane] = a[from[lane]];
    u32* to = slot<u32>(warp, op->d);
    if (SOFTGPU_LIKELY(!warp->partial)) __builtin_memcpy(to, values, sizeof values);
    else blend<u32>(to, values, warp->mask);
    if (op->e != kNoSlot) set_predicate(warp, op->e, pack_bits(valid));
    return op + 1;
}

// vote: predicate a, members b.
enum class Vote { all, any, uniform, ballot };
template <Vote vote>
const Op* ballot(const Op* op, Warp* warp) {
    const u32 here = gather_members(op, warp, op->b);
    if (SOFTGPU_UNLIKELY(here == 0)) return nullptr;
    const u32 votes = predicate(warp, op->a) & here;
    if constexpr (vote == Vote::ballot) {
        u32* to = result<u32>(op, warp);
        for (u32 i = 0; i < kLanes; ++i) to[i] = votes;
        finish<u32>(op, warp);
    } else {
        const bool yes = vote == Vote::all ? votes == here : vote == Vote::any ? votes != 0 : votes == here || votes == 0;
        set_predicate(warp, op->d, yes ? kAllLanes : 0);
    }
    return op + 1;
}

// match: value a, members b, for .all a predicate e.
template <class T, bool all>
const Op* match(const Op* op, Warp* warp) {
    const u32 here = gather_members(op, warp, op->b);
    if (SOFTGPU_UNLIKELY(here == 0)) return nullptr;
    const T* a = slot<T>(warp, op->a);
    u32 same[kLanes] = {};
    for (u32 left = here; left != 0;) {
        const T value = a[__builtin_ctz(left)];
        u32 group = 0;
        for (u32 i = 0; i < kLanes; ++i) group |= a[i] == value ? kBit[i] : 0;
        group &= here;
        for (u32 i = 0; i < kLanes; ++i) same[i] = (group & kBit[i]) ? group : same[i];
        left &= ~group;
    }
    const bool agreed = same[__builtin_ctz(here)] == here;
    u32* to = slot<u32>(warp, op->d);
    for (u32 i = 0; i < kLanes; ++i) {
        if (here & kBit[i]) to[i] = !all ? same[i] : agreed ? here : 0;
    }
    if (all && op->e != kNoSlot) set_predicate(warp, op->e, agreed ? kAllLanes : 0);
    return op + 1;
}

template <class T, auto f>
const Op* reduce(const Op* op, Warp* warp) {
    const u32 here = gather_members(op, warp, op->b);
    if (SOFTGPU_UNLIKELY(here == 0)) return nullptr;
    const T* a = slot<T>(warp, op->a);
    T total = a[__builtin_ctz(here)];
    for (u32 left = here & (here - 1); left != 0; left &= left - 1) total = f(total, a[__builtin_ctz(left)]);
    T* to = result<T>(op, warp);
    for (u32 i = 0; i < kLanes; ++i) to[i] = total;
    finish<T>(op, warp);
    return op + 1;
}

const Op* warp_barrier(const Op* op, Warp* warp) { return gather_members(op, warp, op->a) == 0 ? nullptr : op + 1; }

const Op* active_mask(const Op* op, Warp* warp) {
    u32* to = result<u32>(op, warp);
    for (u32 i = 0; i < kLanes; ++i) to[i] = warp->mask;
    finish<u32>(op, warp);
    return op + 1;
}

const HandlerEntry kEntries[] = {
    {"shfl.up.b32", shuffle<Way::up>},
    {"shfl.down.b32", shuffle<Way::down>},
    {"shfl.bfly.b32", shuffle<Way::butterfly>},
    {"shfl.idx.b32", shuffle<Way::index>},
    {"vote.all.pred", ballot<Vote::all>},
    {"vote.any.pred", ballot<Vote::any>},
    {"vote.uni.pred", ballot<Vote::uniform>},
    {"vote.ballot.b32", ballot<Vote::ballot>},
    {"match.any.b32", match<u32, false>},
    {"match.any.b64", match<u64, false>},
    {"match.all.b32", match<u32, true>},
    {"match.all.b64", match<u64, true>},
    {"redux.add.b32", reduce<u32, [](u32 a, u32 b) { return a + b; }>},
    {"redux.min.u32", reduce<u32, [](u32 a, u32 b) { return a < b ? a : b; }>},
    {"redux.max.u32", reduce<u32, [](u32 a, u32 b) { return (a > b) ? a : b; }>},
    {"redux.min.s32", reduce<s32, [](s32 a, s32 b) { return a < b ? a : b; }>},
    {"redux.max.s32", reduce<s32, [](s32 a, s32 b) { return (a > b) ? a : b; }>},
    {"redux.and.b32", reduce<u32, [](u32 a, u32 b) { return a & b; }>},
    {"redux.or.b32", reduce<u32, [](u32 a, u32 b) { return a | b; }>},
    {"redux.xor.b32", reduce<u32, [](u32 a, u32 b) { return a ^ b; }>},
    {"bar.warp.sync", warp_barrier},
    {"activemask.b32", active_mask},
};

}  // namespace

extern const HandlerTable kExchangeHandlers;
const HandlerTable kExchangeHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
