#include "exec/handlers.h"
#include "lower/passes.h"

namespace softgpu::lower {
namespace {

// A slot of its own for each makes frames larger: enough for what kernels compute of their threads' places.
constexpr size_t kMost = 128;

bool stays(const Body& body, uint32_t value) {
    return value == kNoValue || (body.values[value].constant && !differs_by_block(body.values[value].init));
}

// One result, of operands in their fields, independent of the thread and the time.
bool is_movable(const Inst& inst) {
    return inst.defs == 1 << kD && inst.guard == kNoValue && inst.call == nullptr &&
           inst.extra_uses.empty() && inst.extra_defs.empty() && inst.kept == UINT32_MAX && is_pure(inst.fn);
}

}  // namespace

// The instruction may move to the start because it is pure, its operands have their values there already, and
// nothing else writes its result: wherever the result was read behind the instruction, it is the same. Where
// it was read before, the program read what nobody had written.
void hoist_to_prologue(Body& body, const Graph& graph) {
    std::vector<uint32_t> definitions(body.values.size());
    for (const uint32_t block : graph.order()) {
        for (const Inst& inst : body.blocks[block].code) {
            for (uint8_t field = 0; field < kFields; ++field) {
                if ((inst.defs >> field & 1) && inst.values[field] != kNoValue)
                    ++definitions[inst.values[field]];
            }
            for (const uint32_t value : inst.extra_defs) ++definitions[value];
        }
    }
    for (const uint32_t block : graph.order()) {
        std::vector<Inst> rest;
        rest.reserve(body.blocks[block].code.size());
        for (Inst& inst : body.blocks[block].code) {
            bool moves =
                is_movable(inst) && definitions[inst.values[kD]] == 1 && body.prologue.size() < kMost;
            for (uint8_t field = kA; field < kFields && moves; ++field)
                moves = stays(body, inst.values[field]);
            if (moves) {
                Value& result = body.values[inst.values[kD]];
                result.constant = true;
                result.init.kind = SlotInit::Kind::computed;
            }
            (moves ? body.prologue : rest).push_back(std::move(inst));
        }
        body.blocks[block].code = std::move(rest);
    }
}

}  // namespace softgpu::lower
