// Integer sums whose old values nobody asks for, gathered before they go to device memory.
//
// A GPU adds at its memory, and the program does not wait. Here each addition to device memory is a locked
// instruction, the price of 30 others. So while a block runs its turn, what it adds to one small allocation
// is gathered beside it, and added in the end, once a place.
//
// Why no program can tell, but by time: such an instruction orders nothing, so others may see it late, and
// sums may go in any order. What must see it sooner finds it done:
// - Any other access of the block to that allocation. A block reaches device memory by its cache of ranges or
//   by `resolve`; opening takes the allocation out of the cache, and what puts it there again
//   (`cache_range`), like `resolve`, settles first. Accesses of the `kept` kind have looked before: so no
//   survey is shared across an addition (lower/surveys.cc).
// - Fences, and what orders like one, settle; those are what lets other blocks rely on an order.
// - A turn's end settles, also a block's: who waits for the sum gets it as soon as for anything else.
#pragma once

#include "exec/op.h"

namespace softgpu {

constexpr uint64_t kSumsBytes = 16384;
constexpr uint32_t kMostForced = 64;  // a launch that reads between its additions gains nothing

struct Sums {
    uint64_t base = 0;
    uint64_t bytes = 0;                               // of the allocation; 0: nothing is open
    uint32_t width = 0;                               // of an element
    uint32_t forced = 0;                              // how often an access of this launch came between
    alignas(64) std::byte gathered[kSumsBytes] = {};  // 0 where nothing is owed
};

// Begins to gather for the allocation [range.base, range.end), if it is one that can be.
void open_sums(Block* block, CachedRange range, uint32_t width);

// Adds what is owed.
void settle_sums(Block* block);

// The same, if it is owed to [first, end).
inline void settle_sums_of(Block* block, uint64_t first, uint64_t end) {
    Sums& sums = *block->sums;
    if (sums.bytes == 0 || end <= sums.base || sums.base + sums.bytes <= first) return;
    ++sums.forced;
    settle_sums(block);
}

}  // namespace softgpu
