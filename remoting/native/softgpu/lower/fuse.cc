#include <optional>
#include <unordered_map>

#include "exec/handlers.h"
#include "lower/passes.h"

namespace softgpu::lower {
namespace {

constexpr uint64_t kMostScaled = 4;  // index.4: elements of 16 bytes

constexpr Code kScaled[] = {"shl.add.0"_op, "shl.add.1"_op, "shl.add.2"_op, "shl.add.3"_op, "shl.add.4"_op};
constexpr Code kIndex[] = {"index.0"_op, "index.1"_op, "index.2"_op, "index.3"_op, "index.4"_op};
// Sums whose result nobody reads.
constexpr std::pair<Code, Code> kQuiet[] = {
    {"atom.global.add.b32"_op, "red.global.add.b32"_op},
    {"atom.global.add.b64"_op, "red.global.add.b64"_op},
    {"atom.generic.add.b32"_op, "red.generic.add.b32"_op},
    {"atom.generic.add.b64"_op, "red.generic.add.b64"_op},
    {"atom.shared32.add.b32"_op, "red.shared32.add.b32"_op},
    {"atom.shared32.add.b64"_op, "red.shared32.add.b64"_op},
    {"atom.shared64.add.b32"_op, "red.shared64.add.b32"_op},
    {"atom.shared64.add.b64"_op, "red.shared64.add.b64"_op},
};

template <class F>
void each_operand(const Inst& inst, F f) {
    for (uint8_t field = 0; field < kFields; ++field) {
        if (!(inst.defs >> field & 1) && inst.values[field] != kNoValue) f(inst.values[field]);
    }
    for (const uint32_t value : inst.extra_uses) f(value);
    if (inst.guard != kNoValue) f(inst.guard);
}
template <class F>
void each_result(const Inst& inst, F f) {
    for (uint8_t field = 0; field < kFields; ++field) {
        if ((inst.defs >> field & 1) && inst.values[field] != kNoValue) f(inst.values[field]);
    }
    for (const uint32_t value : inst.extra_defs) f(value);
}

struct Known {
    Handler add = find_handler("add.b64"_op), shl = find_handler("shl.b64"_op),
            bits_and = find_handler("and.b64"_op), shr = find_handler("shr.s64"_op);
    Handler scaled[kMostScaled + 1], index[kMostScaled + 1];
    struct {
        Handler sum, product, both;
    } products[4] = {
        {add, find_handler("mul.lo.b64"_op), find_handler("mad.lo.b64"_op)},
        {add, find_handler("mul.wide.s32"_op), find_handler("mad.wide.s32"_op)},
        {add, find_handler("mul.wide.u32"_op), find_handler("mad.wide.u32"_op)},
        {find_handler("add.b32"_op), find_handler("mul.lo.b32"_op), find_handler("mad.lo.b32"_op)},
    };
    std::unordered_map<Handler, Handler> quiet;  // atom to red

    Known() {
        for (uint64_t scale = 0; scale <= kMostScaled; ++scale) {
            scaled[scale] = find_handler(kScaled[scale]);
            index[scale] = find_handler(kIndex[scale]);
        }
        for (const auto& [atom, red] : kQuiet) quiet.emplace(find_handler(atom), find_handler(red));
    }
};
const Known& known() {
    static const Known all;
    return all;
}

class Fuser {
  public:
    Fuser(Body& body, const Graph& graph)
        : body_(body), graph_(graph), uses_(body.values.size()), definitions_(body.values.size()) {}

    void run() {
        count();
        for (const uint32_t block : graph_.order()) {
            last_.clear();
            code_ = &body_.blocks[block].code;
            for (uint32_t at = 0; at < code_->size(); ++at) {
                Inst& inst = (*code_)[at];
                quieten(inst);
                while (address(inst) || product(inst)) {
                }
                each_result(inst, [&](uint32_t value) { last_[value] = at; });
            }
        }
        for (const uint32_t block : graph_.order()) remove_unread(body_.blocks[block].code);
    }

  private:
    void count() {
        for (const uint32_t block : graph_.order()) {
            for (const Inst& inst : body_.blocks[block].code) {
                each_operand(inst, [this](uint32_t value) { ++uses_[value]; });
                each_result(inst, [this](uint32_t value) { ++definitions_[value]; });
            }
            if (body_.blocks[block].condition != kNoValue) ++uses_[body_.blocks[block].condition];
        }
        for (const Inst& inst : body_.prologue)
            each_operand(inst, [this](uint32_t value) { ++uses_[value]; });
        // What a function takes and gives is read by its callers.
        for (const Storage& param : body_.params) {
            if (param.value != kNoValue) ++uses_[param.value], ++definitions_[param.value];
        }
    }

    // The instruction before that computes `value` here, if it is that one and its operands are still what
    // they were: the one that reads the value may then compute it itself.
    const Inst* made_by(uint32_t value, Handler handler) const {
        if (value == kNoValue || definitions_[value] != 1) return nullptr;
        const auto found = last_.find(value);
        if (found == last_.end()) return nullptr;
        const Inst& inst = (*code_)[found->second];
        if (inst.fn != handler || inst.guard != kNoValue) return nullptr;
        bool same = true;
        each_operand(inst, [&](uint32_t operand) {
            const auto changed = last_.find(operand);
            same = same && (changed == last_.end() || changed->second < found->second);
        });
        return same ? &inst : nullptr;
    }
    std::optional<uint64_t> number(uint32_t value) const {
        if (value == kNoValue) return std::nullopt;
        const Value& constant = body_.values[value];
        if (!constant.constant || constant.init.kind != SlotInit::Kind::immediate) return std::nullopt;
        return constant.init.value;
    }

    void become(Inst& inst, Handler handler, uint32_t a, uint32_t b, uint32_t c = kNoValue) {
        each_operand(inst, [this](uint32_t value) { --uses_[value]; });
        inst.fn = handler;
        inst.values[kA] = a, inst.values[kB] = b, inst.values[kC] = c;
        each_operand(inst, [this](uint32_t value) { ++uses_[value]; });
    }

    // base + (number << K), and base + ((number + (number < 0 ? extent : 0)) << K): the place of an array's
    // element, as compilers write it that let indices count from the end.
    bool address(Inst& inst) {
        if (inst.fn != known().add || inst.guard != kNoValue) return false;
        for (const bool first : {true, false}) {
            const uint32_t part = inst.values[first ? kA : kB], base = inst.values[first ? kB : kA];
            if (const Inst* shift = made_by(part, known().shl)) {
                const auto scale = number(shift->values[kB]);
                if (!scale || *scale > kMostScaled) continue;
                uint32_t index = shift->values[kA], extent = kNoValue;
                if (counts_from_end(index, extent))
                    become(inst, known().index[*scale], index, extent, base);
                else
                    become(inst, known().scaled[*scale], shift->values[kA], base);
                return true;
            }
            uint32_t index = part, extent = kNoValue;
            if (counts_from_end(index, extent))
                return become(inst, known().index[0], index, extent, base), true;
        }
        return false;
    }

    // Is `index` another value, plus `extent` where that is negative? Then it becomes that value.
    bool counts_from_end(uint32_t& index, uint32_t& extent) const {
        const Inst* sum = made_by(index, known().add);
        if (sum == nullptr) return false;
        for (const bool first : {true, false}) {
            const uint32_t part = sum->values[first ? kA : kB], plain = sum->values[first ? kB : kA];
            const Inst* chosen = made_by(part, known().bits_and);
            if (chosen == nullptr) continue;
            for (const bool left : {true, false}) {
                const Inst* sign = made_by(chosen->values[left ? kA : kB], known().shr);
                if (sign == nullptr || sign->values[kA] != plain || number(sign->values[kB]) != 63) continue;
                index = plain;
                extent = chosen->values[left ? kB : kA];
                return true;
            }
        }
        return false;
    }

    // a * b + c
    bool product(Inst& inst) {
        if (inst.guard != kNoValue) return false;
        for (const auto& kind : known().products) {
            if (inst.fn != kind.sum) continue;
            for (const bool first : {true, false}) {
                const uint32_t part = inst.values[first ? kA : kB], rest = inst.values[first ? kB : kA];
                const Inst* made = made_by(part, kind.product);
                if (made == nullptr || uses_[part] != 1) continue;
                become(inst, kind.both, made->values[kA], made->values[kB], rest);
                return true;
            }
        }
        return false;
    }

    // An addition whose old value nobody reads needs to give none.
    void quieten(Inst& inst) {
        if (inst.defs != 1 << kD || uses_[inst.values[kD]] != 0) return;
        const auto found = known().quiet.find(inst.fn);
        if (found == known().quiet.end()) return;
        inst.fn = found->second;
        inst.values[kD] = kNoValue;
        inst.defs = 0;
        inst.adds = true;
    }

    // Backwards, so that what only they have read goes too.
    void remove_unread(std::vector<Inst>& code) {
        std::vector<Inst> rest;
        for (size_t at = code.size(); at-- > 0;) {
            Inst& inst = code[at];
            const bool read = inst.defs != 1 << kD || uses_[inst.values[kD]] != 0 || !is_pure(inst.fn);
            if (read) {
                rest.push_back(std::move(inst));
                continue;
            }
            each_operand(inst, [this](uint32_t value) { --uses_[value]; });
        }
        code.assign(std::make_move_iterator(rest.rbegin()), std::make_move_iterator(rest.rend()));
    }

    Body& body_;
    const Graph& graph_;
    std::vector<uint32_t> uses_, definitions_;
    std::vector<Inst>* code_ = nullptr;
    std::map<uint32_t, uint32_t> last_;  // where a value was written last in the block so far
};

}  // namespace

void fuse(Body& body, const Graph& graph) {
    Fuser(body, graph).run();
}

}  // namespace softgpu::lower
