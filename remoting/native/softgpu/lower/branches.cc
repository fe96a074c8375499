#include <algorithm>
#include <utility>

#include "lower/passes.h"

namespace softgpu::lower {
namespace {

// A guard costs what a branch does, so that a few in a row are no more than the branch and the two ends of
// the block behind it; and a warp whose lanes disagree keeps going with the others.
constexpr size_t kFew = 2;

class Joiner {
  public:
    Joiner(Body& body, const Graph& graph) : body_(body), entries_(body.blocks.size()) {
        entries_[0] = 1;
        for (const uint32_t block : graph.order())
            body_.blocks[block].each_successor([this](uint32_t to) { ++entries_[to]; });
    }

    // Takes what follows into the block, as far as nothing else leads there.
    void run(uint32_t at) {
        if (entries_[at] == 0) return;
        Block& block = body_.blocks[at];
        while (guard_side(block, block.next, block.target, !block.negated) ||
               guard_side(block, block.target, block.next, block.negated) || append(at)) {
        }
    }

  private:
    // A branch to `other` around `side`, which goes on to `other` too.
    bool guard_side(Block& block, uint32_t side, uint32_t other, bool negated) {
        if (block.end != End::branch || side == other || !is_short(side, other, block.condition))
            return false;
        Block& inside = body_.blocks[side];
        for (Inst& inst : inside.code) {
            inst.guard = block.condition;
            inst.guard_negated = negated;
            block.code.push_back(std::move(inst));
        }
        clear(inside);
        --entries_[side], --entries_[other];
        block.end = End::jump;
        block.target = other;
        block.condition = kNoValue;
        return true;
    }

    // Nothing in it may wait or have a guard already, and the condition must stay as it is until the end.
    bool is_short(uint32_t side, uint32_t other, uint32_t condition) const {
        const Block& inside = body_.blocks[side];
        if (entries_[side] != 1 || inside.end != End::jump || inside.target != other ||
            inside.code.size() > kFew)
            return false;
        return std::all_of(inside.code.begin(), inside.code.end(), [&](const Inst& inst) {
            for (uint8_t field = 0; field < kFields; ++field) {
                if ((inst.defs >> field & 1) && inst.values[field] == condition) return false;
            }
            return inst.guard == kNoValue && !inst.waits && inst.call == nullptr && inst.extra_uses.empty() &&
                   inst.extra_defs.empty();
        });
    }

    bool append(uint32_t at) {
        Block& block = body_.blocks[at];
        if (block.end != End::jump || block.target == at || entries_[block.target] != 1) return false;
        Block& after = body_.blocks[block.target];
        --entries_[block.target];
        std::move(after.code.begin(), after.code.end(), std::back_inserter(block.code));
        after.code = std::exchange(block.code, {});
        block = std::move(after);
        clear(after);
        return true;
    }

    static void clear(Block& block) { block = Block{}; }

    Body& body_;
    std::vector<uint32_t> entries_;  // edges that lead to a block
};

}  // namespace

void guard_short_branches(Body& body, const Graph& graph) {
    Joiner joiner(body, graph);
    for (const uint32_t block : graph.order()) joiner.run(block);
}

}  // namespace softgpu::lower
