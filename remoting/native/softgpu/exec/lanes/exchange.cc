// Instructions by which the lanes of a warp see each other: shuffles, votes, matches, reductions.
#include "exec/check/shuffle.h"
#include "exec/lanes/lanes.h"
#include "exec/schedule.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

// The lanes that take part: the executing ones, when all whom they name as members are among them. Zero when
// some are not here yet; the warp then waits. Groups of lanes may each name members of their own, as tiles of
// a warp do: if one is not complete, the first lane's goes on or waits alone.
SOFTGPU_INLINE u32 gather_members(const Op* op, Warp* warp, u32 offset) {
    if (offset == kNoSlot) return warp->mask;  // the forms without .sync
    const u32* members = slot<u32>(warp, offset);
    u32 wanted = 0;
    for (u32 i = 0; i < kLanes; ++i) wanted |= (warp->mask & kBit[i]) ? members[i] : 0;
    if (SOFTGPU_LIKELY((wanted & warp->live & ~warp->mask) == 0)) return warp->mask;
    const u32 first = members[__builtin_ctz(warp->mask)];
    u32 alike = 0;
    for (u32 i = 0; i < kLanes; ++i) alike |= members[i] == first ? kBit[i] : 0;
    run_only(op, warp, alike & warp->mask);
    if ((first & warp->live & ~warp->mask) == 0) return warp->mask;
    wait_for_members(op, warp, first & warp->live);
    return 0;
}

// f(lanes) for each group of `here` whose lanes name the same members.
template <class F>
SOFTGPU_INLINE void each_group(Warp* warp, u32 offset, u32 here, F f) {
    if (offset == kNoSlot) return f(here);
    const u32* members = slot<u32>(warp, offset);
    for (u32 left = here; left != 0;) {
        const u32 first = members[__builtin_ctz(left)];
        u32 group = 0;
        for (u32 i = 0; i < kLanes; ++i) group |= members[i] == first ? kBit[i] : 0;
        group &= left;
        f(group);
        left &= ~group;
    }
}

// d, predicate e = shfl a, b, c; members in jump. Of a lane that is not here the value is undefined: 0, and
// not what its register happens to hold, since there are programs that add up what they get.
enum class Way { up, down, butterfly, index };
template <Way way, bool checked = false>
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
            j = way == Way::down        ? lane + step
                : way == Way::butterfly ? lane ^ step
                                        : least | (step & ~segment & 31);
            good = j <= most;
        }
        from[lane] = good ? j & 31 : lane;
        valid[lane] = good ? -1 : 0;
    }
    alignas(64) u32 values[kLanes];
    for (u32 lane = 0; lane < kLanes; ++lane) values[lane] = a[from[lane]];
    u32* to = slot<u32>(warp, op->d);
    if (SOFTGPU_LIKELY(!warp->partial)) {
        __builtin_memcpy(to, values, sizeof values);
    } else {
        if constexpr (checked) check::look_at_sources(op, warp, from);
        for (u32 lane = 0; lane < kLanes; ++lane)
            values[lane] = (warp->mask & kBit[from[lane]]) ? values[lane] : 0;
        blend<u32>(to, values, warp->mask);
    }
    if (op->e != kNoSlot) set_predicate(warp, op->e, pack_bits(valid));
    return op + 1;
}

// vote: predicate a, members b.
enum class Vote { all, any, uniform, ballot };
template <Vote vote>
const Op* ballot(const Op* op, Warp* warp) {
    const u32 here = gather_members(op, warp, op->b);
    if (SOFTGPU_UNLIKELY(here == 0)) return nullptr;
    const u32 asked = predicate(warp, op->a);
    u32 yes = 0;
    alignas(64) u32 ballots[kLanes] = {};
    each_group(warp, op->b, here, [&](u32 group) {
        const u32 votes = asked & group;
        if constexpr (vote == Vote::ballot) {
            for (u32 i = 0; i < kLanes; ++i) ballots[i] = (group & kBit[i]) ? votes : ballots[i];
        } else {
            const bool all = votes == group, none = votes == 0;
            if (vote == Vote::all ? all : vote == Vote::any ? !none : all || none) yes |= group;
        }
    });
    if constexpr (vote == Vote::ballot)
        blend<u32>(slot<u32>(warp, op->d), ballots, here);
    else
        set_predicate(warp, op->d, yes);
    return op + 1;
}

// match: value a, members b, for .all a predicate e.
template <class T, bool all>
const Op* match(const Op* op, Warp* warp) {
    const u32 here = gather_members(op, warp, op->b);
    if (SOFTGPU_UNLIKELY(here == 0)) return nullptr;
    const T* a = slot<T>(warp, op->a);
    u32 same[kLanes] = {};
    u32 agreed = 0;
    each_group(warp, op->b, here, [&](u32 members) {
        for (u32 left = members; left != 0;) {
            const T value = a[__builtin_ctz(left)];
            u32 group = 0;
            for (u32 i = 0; i < kLanes; ++i) group |= a[i] == value ? kBit[i] : 0;
            group &= members;
            if (group == members) agreed |= members;
            for (u32 i = 0; i < kLanes; ++i) same[i] = (group & kBit[i]) ? group : same[i];
            left &= ~group;
        }
    });
    u32* to = slot<u32>(warp, op->d);
    for (u32 i = 0; i < kLanes; ++i) {
        if (here & kBit[i]) to[i] = !all || (agreed & kBit[i]) ? same[i] : 0;
    }
    if (all && op->e != kNoSlot) set_predicate(warp, op->e, agreed);
    return op + 1;
}

template <class T, auto f>
const Op* reduce(const Op* op, Warp* warp) {
    const u32 here = gather_members(op, warp, op->b);
    if (SOFTGPU_UNLIKELY(here == 0)) return nullptr;
    const T* a = slot<T>(warp, op->a);
    alignas(64) T totals[kLanes] = {};
    each_group(warp, op->b, here, [&](u32 group) {
        T total = a[__builtin_ctz(group)];
        for (u32 left = group & (group - 1); left != 0; left &= left - 1)
            total = f(total, a[__builtin_ctz(left)]);
        for (u32 i = 0; i < kLanes; ++i) totals[i] = (group & kBit[i]) ? total : totals[i];
    });
    blend<T>(slot<T>(warp, op->d), totals, here);
    return op + 1;
}

const Op* warp_barrier(const Op* op, Warp* warp) {
    return gather_members(op, warp, op->a) == 0 ? nullptr : op + 1;
}

const Op* active_mask(const Op* op, Warp* warp) {
    u32* to = result<u32>(op, warp);
    for (u32 i = 0; i < kLanes; ++i) to[i] = warp->mask;
    finish<u32>(op, warp);
    return op + 1;
}

const HandlerEntry kEntries[] = {
    {"shfl.up.b32", in_turn<shuffle<Way::up>>},
    {"check.shfl.up.b32", in_turn<shuffle<Way::up, true>>},
    {"shfl.down.b32", in_turn<shuffle<Way::down>>},
    {"check.shfl.down.b32", in_turn<shuffle<Way::down, true>>},
    {"shfl.bfly.b32", in_turn<shuffle<Way::butterfly>>},
    {"check.shfl.bfly.b32", in_turn<shuffle<Way::butterfly, true>>},
    {"shfl.idx.b32", in_turn<shuffle<Way::index>>},
    {"check.shfl.idx.b32", in_turn<shuffle<Way::index, true>>},
    {"vote.all.pred", in_turn<ballot<Vote::all>>},
    {"vote.any.pred", in_turn<ballot<Vote::any>>},
    {"vote.uni.pred", in_turn<ballot<Vote::uniform>>},
    {"vote.ballot.b32", in_turn<ballot<Vote::ballot>>},
    {"match.any.b32", in_turn<match<u32, false>>},
    {"match.any.b64", in_turn<match<u64, false>>},
    {"match.all.b32", in_turn<match<u32, true>>},
    {"match.all.b64", in_turn<match<u64, true>>},
    {"redux.add.b32", in_turn<reduce<u32, [](u32 a, u32 b) { return a + b; }>>},
    {"redux.min.u32", in_turn<reduce<u32, [](u32 a, u32 b) { return a < b ? a : b; }>>},
    {"redux.max.u32", in_turn<reduce<u32, [](u32 a, u32 b) { return (a > b) ? a : b; }>>},
    {"redux.min.s32", in_turn<reduce<s32, [](s32 a, s32 b) { return a < b ? a : b; }>>},
    {"redux.max.s32", in_turn<reduce<s32, [](s32 a, s32 b) { return (a > b) ? a : b; }>>},
    {"redux.and.b32", in_turn<reduce<u32, [](u32 a, u32 b) { return a & b; }>>},
    {"redux.or.b32", in_turn<reduce<u32, [](u32 a, u32 b) { return a | b; }>>},
    {"redux.xor.b32", in_turn<reduce<u32, [](u32 a, u32 b) { return a ^ b; }>>},
    {"bar.warp.sync", in_turn<warp_barrier>},
    {"activemask.b32", in_turn<active_mask>},
};

}  // namespace

extern const HandlerTable kExchangeHandlers;
const HandlerTable kExchangeHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
