#include <algorithm>
#include <queue>

#include "lower/passes.h"

namespace softgpu::lower {
namespace {

constexpr uint64_t kMaxFrameBytes = 16u << 20;
constexpr uint64_t kMaxWork = 100'000'000;

// Positions: instruction i reads at 2i and writes at 2i + 1, so a result may take the slot of an operand that
// ends there, unless the instruction's lanes cross.
struct Interval {
    uint32_t first = UINT32_MAX, last = 0;
    void cover(uint32_t at) {
        first = std::min(first, at);
        last = std::max(last, at);
    }
    bool empty() const { return first > last; }
};

class Liveness {
  public:
    Liveness(const Body& body, const Graph& graph)
        : body_(body), graph_(graph), intervals_(body.values.size()) {
        number();
        collect();
        extend();
    }
    std::vector<Interval>& intervals() { return intervals_; }

  private:
    void number() {
        start_.resize(body_.blocks.size());
        end_.resize(body_.blocks.size());
        uint32_t position = 1;
        for (const uint32_t block : graph_.order()) {
            start_[block] = 2 * position;
            position += uint32_t(body_.blocks[block].code.size()) + 1;
            end_[block] = 2 * position - 1;
            ++position;
        }
        last_ = 2 * position;
    }

    // Per block and value: is it read before it is surely written (upward exposed), is it surely written.
    void collect() {
        std::vector<uint32_t> written_in(body_.values.size(), kNoBlock),
            exposed_in(body_.values.size(), kNoBlock);
        for (const uint32_t block : graph_.order()) {
            uint32_t at = start_[block];
            auto use = [&](uint32_t value, uint32_t where) {
                if (body_.values[value].constant) return;
                intervals_[value].cover(where);
                if (written_in[value] != block && exposed_in[value] != block) {
                    exposed_in[value] = block;
                    exposed_.push_back({value, block});
                }
            };
            auto define = [&](uint32_t value, uint32_t where, bool partly) {
                if (partly) use(value, where);
                intervals_[value].cover(where);
                if (!partly && written_in[value] != block) {
                    written_in[value] = block;
                    written_.push_back({value, block});
                }
            };
            for (const Inst& inst : body_.blocks[block].code) {
                const uint32_t reads = inst.crosses ? at + 1 : at;
                for (uint8_t field = 0; field < kFields; ++field) {
                    if (!(inst.defs >> field & 1) && inst.values[field] != kNoValue)
                        use(inst.values[field], reads);
                }
                for (const uint32_t value : inst.extra_uses) use(value, reads);
                if (inst.guard != kNoValue) use(inst.guard, reads);
                const bool partly = inst.guard != kNoValue;
                for (uint8_t field = 0; field < kFields; ++field) {
                    if ((inst.defs >> field & 1) && inst.values[field] != kNoValue)
                        define(inst.values[field], at + 1, partly);
                }
                for (const uint32_t value : inst.extra_defs) define(value, at + 1, partly);
                at += 2;
            }
            if (body_.blocks[block].condition != kNoValue) use(body_.blocks[block].condition, at);
        }
    }

    // From each block that reads a value first, back to the blocks that write it.
    void extend() {
        std::sort(exposed_.begin(), exposed_.end());
        std::sort(written_.begin(), written_.end());
        std::vector<uint32_t> seen(body_.blocks.size(), kNoValue), writes(body_.blocks.size(), kNoValue);
        uint64_t work = 0;
        std::vector<uint32_t> stack;
        auto write = written_.begin();
        for (auto it = exposed_.begin(); it != exposed_.end();) {
            const uint32_t value = it->first;
            while (write != written_.end() && write->first < value) ++write;
            for (; write != written_.end() && write->first == value; ++write) writes[write->second] = value;
            for (; it != exposed_.end() && it->first == value; ++it) stack.push_back(it->second);
            while (!stack.empty()) {
                const uint32_t block = stack.back();
                stack.pop_back();
                if (seen[block] == value) continue;
                seen[block] = value;
                intervals_[value].cover(start_[block]);
                for (const uint32_t from : graph_.predecessors(block)) {
                    if (++work > kMaxWork) return everything();
                    intervals_[value].cover(end_[from]);
                    if (writes[from] != value) stack.push_back(from);
                }
            }
        }
    }

    // A program too tangled to analyse in bounded time: all values live throughout.
    void everything() {
        for (Interval& interval : intervals_) {
            if (!interval.empty()) interval.cover(0), interval.cover(last_);
        }
    }

    const Body& body_;
    const Graph& graph_;
    std::vector<Interval> intervals_;
    std::vector<uint32_t> start_, end_;
    std::vector<std::pair<uint32_t, uint32_t>> exposed_, written_;  // value, block
    uint32_t last_ = 0;
};

}  // namespace

uint32_t assign_slots(Body& body, const Graph& graph, uint32_t& registers) {
    Liveness liveness(body, graph);
    const auto& intervals = liveness.intervals();
    std::vector<uint32_t> by_start;
    for (uint32_t value = 0; value < body.values.size(); ++value) {
        if (!body.values[value].constant && !intervals[value].empty()) by_start.push_back(value);
    }
    std::sort(by_start.begin(), by_start.end(), [&](uint32_t a, uint32_t b) {
        return std::pair(intervals[a].first, a) < std::pair(intervals[b].first, b);
    });
    using Ending = std::pair<uint32_t, uint32_t>;  // last position, value
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
    std::vector<uint32_t> spare[3];
    uint32_t made[3] = {0, 0, 0};
    uint32_t live = 0;
    registers = 0;
    auto weight = [](Width width) { return width == Width::wide ? 2u : width == Width::narrow ? 1u : 0u; };
    for (const uint32_t value : by_start) {
        while (!active.empty() && active.top().first < intervals[value].first) {
            const Value& ended = body.values[active.top().second];
            spare[size_t(ended.width)].push_back(ended.slot);
            live -= weight(ended.width);
            active.pop();
        }
        const size_t kind = size_t(body.values[value].width);
        if (spare[kind].empty()) {
            body.values[value].slot = made[kind]++;
        } else {
            body.values[value].slot = spare[kind].back();
            spare[kind].pop_back();
        }
        live += weight(body.values[value].width);
        registers = std::max(registers, live);
        active.emplace(intervals[value].last, value);
    }
    // Predicates first, then the wide slots, the narrow ones, and what never changes.
    uint64_t at = (uint64_t(made[0]) * 4 + 63) / 64 * 64;
    const uint64_t wide = at;
    at += uint64_t(made[size_t(Width::wide)]) * 256;
    const uint64_t narrow = at;
    at += uint64_t(made[size_t(Width::narrow)]) * 128;
    for (Value& value : body.values) {
        if (value.constant) {
            value.slot = uint32_t(at);
            at += value.width == Width::wide ? 256 : value.width == Width::narrow ? 128 : 64;
            if (at > kMaxFrameBytes) break;
        } else if (value.slot != kNoSlot) {
            switch (value.width) {
                case Width::predicate:
                    value.slot *= 4;
                    break;
                case Width::wide:
                    value.slot = uint32_t(wide + uint64_t(value.slot) * 256);
                    break;
                case Width::narrow:
                    value.slot = uint32_t(narrow + uint64_t(value.slot) * 128);
                    break;
            }
        }
    }
    at = (at + 63) / 64 * 64;
    body.kept_offset = uint32_t(at);
    at += uint64_t(body.kept_count) * kKeptBytes;
    if (at > kMaxFrameBytes) throw ptx::Error(0, "too many registers live at once");
    return uint32_t((at + 63) / 64 * 64 + 64);
}

}  // namespace softgpu::lower
