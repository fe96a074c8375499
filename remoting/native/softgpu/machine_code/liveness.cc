#include "machine_code/liveness.h"

#include <algorithm>

#include "machine_code/select.h"

namespace softgpu::machine_code {
namespace {

constexpr int kMostPasses = 16;

uint32_t target(uint32_t at, const Op& op) {
    return uint32_t(int64_t(at) + op.jump);
}

}  // namespace

Liveness::Liveness(const Image& image, const Function& function, const std::vector<uint32_t>& places)
    : image_(image), function_(function) {
    const Set nothing(function.slot_bytes / kUnit + 1);
    for (const uint32_t place : places) places_[place] = nothing;
    for (uint32_t i = function.first; i < function.end; ++i) {
        const Code code = code_of(image.ops[i].fn);
        if (code == "bra"_op || code == "bra.if"_op) targets_[target(i, image.ops[i])] = nothing;
    }
    for (int passes = 0; passes < kMostPasses && !known_; ++passes) known_ = !pass();
}

bool Liveness::reads(uint32_t place, uint32_t slot) const {
    return !known_ || places_.at(place)[slot / kUnit];
}

void Liveness::mark(Set& live, uint32_t slot, bool wide, bool value) const {
    for (uint32_t unit = slot / kUnit; unit < slot / kUnit + (wide ? 4 : 2) && unit < live.size(); ++unit)
        live[unit] = value;
}

// From what is live after an op to what is before it. Of an instruction that is not known here, all may be
// read.
void Liveness::before(uint32_t at, Set& live) const {
    const Op& op = image_.ops[at];
    const Code code = code_of(op.fn);
    if (code == "bra"_op) {
        live = targets_.at(target(at, op));
    } else if (code == "bra.if"_op) {
        const Set& taken = targets_.at(target(at, op));
        for (size_t i = 0; i < live.size(); ++i) live[i] = live[i] || taken[i];
    } else if (code == "exit"_op || code == "unreachable"_op) {
        live.assign(live.size(), false);
    } else if (code == "bar.sync"_op) {
        mark(live, op.a, false, true);
        if (op.b != kNoSlot) mark(live, op.b, false, true);
    } else if (code != "join"_op && code != "guard"_op) {
        const auto slots = slots_of(code, op);
        if (!slots) return live.assign(live.size(), true);
        const bool guarded = at > function_.first && code_of(image_.ops[at - 1].fn) == "guard"_op;
        if (slots->written && !guarded) mark(live, slots->written->first, slots->written->second, false);
        for (const auto& [slot, wide] : slots->read) mark(live, slot, wide, true);
    }
}

bool Liveness::pass() {
    bool changed = false;
    Set live(function_.slot_bytes / kUnit + 1);
    for (uint32_t at = function_.end; at-- > function_.first;) {
        if (const auto place = places_.find(at + 1); place != places_.end()) place->second = live;
        before(at, live);
        if (const auto found = targets_.find(at); found != targets_.end() && found->second != live) {
            found->second = live;
            changed = true;
        }
    }
    return changed;
}

}  // namespace softgpu::machine_code
