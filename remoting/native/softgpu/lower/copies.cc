#include "lower/passes.h"

namespace softgpu::lower {
namespace {

struct Definition {
    uint32_t count = 0;
    uint32_t block = kNoBlock;
    uint32_t at = 0;
    bool guarded = false;
};

template <class F>
void each_def(const Inst& inst, F f) {
    for (uint8_t field = 0; field < kFields; ++field) {
        if ((inst.defs >> field & 1) && inst.values[field] != kNoValue) f(inst.values[field]);
    }
    for (const uint32_t value : inst.extra_defs) f(value);
}

template <class F>
void each_use(const Inst& inst, F f) {
    for (uint8_t field = 0; field < kFields; ++field) {
        if (!(inst.defs >> field & 1) && inst.values[field] != kNoValue) f(inst.values[field]);
    }
    for (const uint32_t value : inst.extra_uses) f(value);
    if (inst.guard != kNoValue) f(inst.guard);
}

}  // namespace

// `d = s` may go when d has no other definition, and s is constant or, like d, defined once, and the
// definition of s comes before the copy and the copy before every use of d on every path. Then s cannot have
// been redefined between the copy and the use: a path from the definition of s to the use that misses the
// copy would, with one from the entry, reach the use without the copy.
void remove_copies(Body& body, const Graph& graph) {
    std::vector<Definition> definitions(body.values.size());
    for (const uint32_t block : graph.order()) {
        const auto& code = body.blocks[block].code;
        for (uint32_t at = 0; at < code.size(); ++at) {
            each_def(code[at], [&](uint32_t value) {
                Definition& definition = definitions[value];
                ++definition.count;
                definition.block = block, definition.at = at;
                definition.guarded |= code[at].guard != kNoValue;
            });
        }
    }
    auto before = [&](uint32_t block, uint32_t at, uint32_t use_block, uint32_t use_at) {
        return block == use_block ? at < use_at : graph.dominates(block, use_block);
    };
    // The caller takes return values from their own slots.
    std::vector<bool> pinned(body.values.size());
    for (const Storage& storage : body.params) {
        if (storage.value != kNoValue) pinned[storage.value] = true;
    }
    std::vector<uint32_t> replacement(body.values.size(), kNoValue);
    for (const uint32_t block : graph.order()) {
        const auto& code = body.blocks[block].code;
        for (uint32_t at = 0; at < code.size(); ++at) {
            const Inst& inst = code[at];
            if (!inst.copy || inst.guard != kNoValue) continue;
            const uint32_t to = inst.values[kD], from = inst.values[kA];
            if (definitions[to].count != 1 || to == from || pinned[to] ||
                body.values[to].width != body.values[from].width)
                continue;
            const Definition& source = definitions[from];
            const bool stable = body.values[from].constant || (source.count == 1 && !source.guarded &&
                                                               before(source.block, source.at, block, at));
            if (stable) replacement[to] = from;
        }
    }
    // A use that the copy does not come before on every path keeps the copy.
    auto check = [&](uint32_t value, uint32_t block, uint32_t at) {
        if (replacement[value] == kNoValue || body.values[replacement[value]].constant) return;
        if (!before(definitions[value].block, definitions[value].at, block, at))
            replacement[value] = kNoValue;
    };
    for (const uint32_t block : graph.order()) {
        const auto& code = body.blocks[block].code;
        for (uint32_t at = 0; at < code.size(); ++at)
            each_use(code[at], [&](uint32_t value) { check(value, block, at); });
        if (body.blocks[block].condition != kNoValue)
            check(body.blocks[block].condition, block, uint32_t(code.size()));
    }
    // No cycles: each replacement is defined before what it replaces.
    auto resolve = [&](uint32_t value) {
        while (replacement[value] != kNoValue) {
            const uint32_t next = replacement[value];
            if (replacement[next] != kNoValue) replacement[value] = replacement[next];
            value = next;
        }
        return value;
    };
    for (const uint32_t block : graph.order()) {
        auto& code = body.blocks[block].code;
        std::erase_if(
            code, [&](const Inst& inst) { return inst.copy && replacement[inst.values[kD]] != kNoValue; });
        for (Inst& inst : code) {
            for (uint8_t field = 0; field < kFields; ++field) {
                if (!(inst.defs >> field & 1) && inst.values[field] != kNoValue)
                    inst.values[field] = resolve(inst.values[field]);
            }
            for (uint32_t& value : inst.extra_uses) value = resolve(value);
            if (inst.guard != kNoValue) inst.guard = resolve(inst.guard);
            if (inst.call != nullptr) {
                if (inst.call->pointer != kNoSlot) inst.call->pointer = resolve(inst.call->pointer);
                for (Place& place : inst.call->arguments) {
                    if (!place.local && place.bytes != 0) place.offset = resolve(place.offset);
                }
            }
        }
        if (body.blocks[block].condition != kNoValue)
            body.blocks[block].condition = resolve(body.blocks[block].condition);
    }
    // A result that is only a copy is returned from where its source is.
    for (Storage& param : body.params) {
        if (param.value != kNoValue) param.value = resolve(param.value);
    }
}

}  // namespace softgpu::lower
