// Which lanes of a warp run next, and which warps of a block.
//
// A warp's lanes are in splits: lanes that are at one place. One split runs, the others wait. Order decides
// who runs: the deepest call first, then the earliest instruction; see lower::Graph for why that brings lanes
// together. A split that has jumped back `budget` times gives its turn to the one that has waited longest, so
// that a lane that spins for what another lane of its warp will do does not spin for ever.
#pragma once

#include "exec/op.h"

namespace softgpu {

constexpr int64_t kBudgetAlone = 1 << 16;
constexpr int64_t kBudgetShared = 1 << 12;

inline const Op* const kNoWait = reinterpret_cast<const Op*>(UINTPTR_MAX);

// Lanes `mask` of the running split stop running and wait at pc.
void park(Warp* warp, const Op* pc, uint32_t mask, Wait wait, uint32_t members = 0, uint8_t barrier = 0);

// The running split is at pc and splits wait: joins those at the same place, and gives way to one that is to
// run earlier. Returns where to go on.
const Op* arrive(Warp* warp, const Op* pc);

// Lanes `mask` of the running split go on at pc; the others wait there.
void run_only(const Op* pc, Warp* warp, uint32_t mask);

// Recomputes what depends on the waiting splits and the running one.
void refresh(Warp* warp);

// Chooses the split to run. Null when none is ready.
const Op* pick(Warp* warp);

// Is the split's place earlier than that one in the order by which lanes meet?
bool runs_before(const Split& split, const Frame* frame, const Op* pc);

// Runs a warp until it cannot go on, or yields.
void run_turn(Warp* warp);

// The running split has used its budget.
const Op* yield(Warp* warp, const Op* pc);

// The running split's lanes end.
const Op* exit_lanes(Warp* warp);

// bar.sync, bar.arrive, bar.red.
enum class BarrierKind : uint8_t { sync, arrive, any, all, count };
const Op* arrive_at_barrier(const Op* op, Warp* warp, BarrierKind kind);

enum class Progress : uint8_t { finished, yielded, stuck, stopped };

// Gives every warp that can run one turn; the first time in a block, from `start`.
Progress run_block(Block* block, const Op* start);

}  // namespace softgpu
