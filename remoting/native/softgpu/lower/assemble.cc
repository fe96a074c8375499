#include <algorithm>
#include <unordered_map>

#include "exec/handlers.h"
#include "lower/passes.h"

namespace softgpu::lower {
namespace {

struct Fixup {
    uint32_t op;  // index in the image
    uint32_t block;
};
struct TableFixup {
    std::vector<const Op*>* table;
    Targets blocks;
};

class Assembler {
  public:
    Assembler(Body& body, Image& image, Function& function)
        : body_(body), image_(image), function_(function) {}

    void run() {
        function_.prologue = uint32_t(image_.ops.size());
        for (const Inst& inst : body_.prologue) instruction(inst);
        function_.first = uint32_t(image_.ops.size());
        entry_.assign(body_.blocks.size(), kNoSlot);
        count_entries();
        for (size_t i = 0; i < body_.order.size(); ++i) {
            const uint32_t block = body_.order[i];
            const uint32_t after = i + 1 < body_.order.size() ? body_.order[i + 1] : kNoBlock;
            if (joins(block)) op("join"_op, body_.blocks[block].line);
            entry_[block] = uint32_t(image_.ops.size());
            for (const Inst& inst : body_.blocks[block].code) instruction(inst);
            finish(body_.blocks[block], after);
            falls_into_ = falls_ ? after : kNoBlock;
        }
        // A last op that nothing reaches: a block's end always has a successor in the image.
        op("unreachable"_op, 0);
        function_.end = uint32_t(image_.ops.size());
        for (const Fixup& fixup : fixups_) {
            image_.ops[fixup.op].jump = int32_t(entry_[fixup.block]) - int32_t(fixup.op);
        }
        for (const TableFixup& fixup : table_fixups_) {
            // Indices for now; link makes pointers of them when all ops have their place.
            fixup.table->reserve(fixup.blocks->size());
            for (const uint32_t block : *fixup.blocks) {
                fixup.table->push_back(reinterpret_cast<const Op*>(uintptr_t(entry_[block])));
            }
        }
        constants();
        function_.constants.shrink_to_fit();
        function_.block_constants.shrink_to_fit();
    }

  private:
    void count_entries() {
        entries_.assign(body_.blocks.size(), 0);
        for (const uint32_t block : body_.order) {
            body_.blocks[block].each_successor([this](uint32_t to) { ++entries_[to]; });
        }
    }
    // Lanes that come by falling through must look for others that wait here.
    bool joins(uint32_t block) const { return falls_into_ == block && entries_[block] > 1; }

    Op& op(Code code, unsigned line) {
        Op made{};
        made.fn = find_handler(code);
        made.d = made.a = made.b = made.c = made.e = kNoSlot;
        made.line = line;
        made.site = uint32_t(image_.ops.size());
        image_.ops.push_back(made);
        return image_.ops.back();
    }
    uint32_t slot(uint32_t value) const { return value == kNoValue ? kNoSlot : body_.values[value].slot; }

    void instruction(const Inst& inst) {
        if (inst.guard != kNoValue) {
            Op& guard = op("guard"_op, inst.line);
            guard.a = slot(inst.guard);
            guard.imm = inst.guard_negated ? UINT64_MAX : 0;
        }
        Op& made = op("join"_op, inst.line);
        made.fn = inst.fn;
        made.d = slot(inst.values[kD]), made.a = slot(inst.values[kA]), made.b = slot(inst.values[kB]);
        made.c = slot(inst.values[kC]), made.e = slot(inst.values[kE]);
        made.jump = int32_t(slot(inst.values[kJump]));
        made.imm = inst.imm;
        if (inst.kept != kNoValue) made.jump = int32_t(body_.kept_offset + inst.kept * kKeptBytes);
        if (inst.raw_b != kNoValue) made.b = inst.raw_b, made.c = inst.raw_c;
        if (inst.call != nullptr) call(inst, made);
        if (inst.slot_table) {
            auto table = std::make_unique<std::vector<uint32_t>>();
            for (const uint32_t value : inst.extra_defs) table->push_back(slot(value));
            for (const uint32_t value : inst.extra_uses) table->push_back(slot(value));
            image_.ops.back().imm = reinterpret_cast<uint64_t>(table->data());
            image_.slot_tables.push_back(std::move(table));
        }
    }

    void call(const Inst& inst, Op& made) {
        made.imm = reinterpret_cast<uint64_t>(inst.call);
        if (inst.call->pointer != kNoSlot) inst.call->pointer = slot(inst.call->pointer);
        for (auto* list : {&inst.call->arguments, &inst.call->returns}) {
            for (Place& place : *list) {
                if (!place.local && place.bytes != 0) place.offset = slot(place.offset);
            }
        }
    }

    void jump(uint32_t to, unsigned line) {
        op("bra"_op, line);
        fixups_.push_back({uint32_t(image_.ops.size() - 1), to});
    }
    void branch(uint32_t condition, bool negated, uint32_t to, unsigned line) {
        Op& made = op("bra.if"_op, line);
        made.a = slot(condition);
        made.imm = negated ? UINT64_MAX : 0;
        fixups_.push_back({uint32_t(image_.ops.size() - 1), to});
    }

    void finish(const Block& block, uint32_t after) {
        falls_ = false;
        switch (block.end) {
            case End::jump:
                if (block.target == after)
                    falls_ = true;
                else
                    jump(block.target, block.line);
                break;
            case End::branch:
                if (block.target == after && block.next != after) {
                    branch(block.condition, !block.negated, block.next, block.line);
                    falls_ = true;
                } else {
                    branch(block.condition, block.negated, block.target, block.line);
                    falls_ = block.next == after;
                    if (!falls_) jump(block.next, block.line);
                }
                break;
            case End::table: {
                Op& made = op("brx"_op, block.line);
                made.a = slot(block.condition);
                made.imm = reinterpret_cast<uint64_t>(table(block.targets));
                break;
            }
            case End::stop:
                break;
        }
    }

    std::vector<const Op*>* table(const Targets& targets) {
        std::vector<const Op*>*& known = tables_[targets.get()];
        if (known == nullptr) {
            image_.tables.push_back(std::make_unique<std::vector<const Op*>>());
            known = image_.tables.back().get();
            table_fixups_.push_back({known, targets});
        }
        return known;
    }

    void constants() {
        for (const Value& value : body_.values) {
            if (!value.constant) continue;
            SlotInit init = value.init;
            init.slot = value.slot;
            if (init.kind == SlotInit::Kind::computed) continue;
            (differs_by_block(init) ? function_.block_constants : function_.constants).push_back(init);
        }
    }

    Body& body_;
    Image& image_;
    Function& function_;
    std::vector<uint32_t> entry_, entries_;
    std::vector<Fixup> fixups_;
    std::vector<TableFixup> table_fixups_;
    std::unordered_map<const std::vector<uint32_t>*, std::vector<const Op*>*> tables_;
    uint32_t falls_into_ = kNoBlock;
    bool falls_ = false;
};

}  // namespace

void assemble(Body& body, Image& image, Function& function) {
    Assembler(body, image, function).run();
}

}  // namespace softgpu::lower
