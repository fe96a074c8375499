// Warps, blocks, branches and calls.
#include "exec/check/access.h"
#include "lower/device_runtime.h"
#include "lower/select.h"

namespace softgpu::lower {
namespace {

// Of all branches through tables in a function: edges of its graph.
constexpr size_t kMaxTableTargets = 1u << 20;

}  // namespace

void Selector::pick_shfl() {
    const bool sync = has("sync");
    expect_operands(sync ? 5 : 4, sync ? 5 : 4);
    ptx::Operand to = operand(0);
    uint32_t valid = kNoValue;
    if (to.kind == ptx::OperandKind::pair) {
        if (to.second != ptx::kNone) valid = to.second;
        if (valid != kNoValue && registers_[valid] != Type::pred) fail("shfl wants a predicate after '|'");
        to.kind = to.reg == ptx::kNone ? ptx::OperandKind::sink : ptx::OperandKind::reg;
    }
    const uint32_t a = source(1, Type::b32), b = source(2, Type::b32), c = source(3, Type::b32);
    const uint32_t members = sync ? source(4, Type::b32) : kNoValue;
    Inst& inst = emit(code(), dest(to, Type::b32), a, b, c, valid);
    if (valid != kNoValue) inst.defs |= 1 << kE;
    inst.crosses = true;
    inst.values[kJump] = members;
}

void Selector::pick_match() {
    expect_operands(3, 3);
    ptx::Operand to = operand(0);
    uint32_t agreed = kNoValue;
    if (to.kind == ptx::OperandKind::pair) {
        if (!has("all") || to.second == ptx::kNone || registers_[to.second] != Type::pred) unknown();
        agreed = to.second;
        to.kind = to.reg == ptx::kNone ? ptx::OperandKind::sink : ptx::OperandKind::reg;
    }
    const uint32_t a = source(1, type_from_end()), members = source(2, Type::b32);
    Inst& inst = emit(code(), dest(to, Type::b32), a, members, kNoValue, agreed);
    if (agreed != kNoValue) inst.defs |= 1 << kE;
    inst.crosses = true;
}

// bar and barrier: id in a, number of threads in b.
void Selector::pick_barrier() {
    expect_operands(has("arrive") ? 2 : 1, 2);
    const uint32_t id = source(0, Type::b32);
    emit_without_result(code(), id, now_->operands.size() == 2 ? source(1, Type::b32) : kNoValue);
}

// The same with a predicate in c, and what all say of it.
void Selector::pick_barrier_red() {
    expect_operands(3, 4);
    const bool counted = now_->operands.size() == 4;
    const uint32_t id = source(1, Type::b32), threads = counted ? source(2, Type::b32) : kNoValue;
    const uint32_t p = predicate_source(operand(counted ? 3 : 2));
    emit(code(), dest(0, type_from_end()), id, threads, p).crosses = true;
}

void Selector::pick_warp_barrier() {
    expect_operands(1, 1);
    emit_without_result(code(), source(0, Type::b32)).imm = kMeetsAnywhere;
}

void Selector::pick_fence() {
    emit_without_result("fence"_op).order = check::acquires | check::releases;
}

void Selector::pick_nothing() {}

void Selector::pick_nanosleep() {
    emit_without_result("spin.long"_op);
}

// trap, brkpt, exit
void Selector::pick_stop() {
    expect_operands(0, 0);
    emit_without_result(code());
    block_ = kNoBlock;
}

void Selector::pick_ret() {
    expect_operands(0, 0);
    emit_return();
}

void Selector::pick_branch() {
    expect_operands(1, 1);
    if (operand(0).kind != ptx::OperandKind::label) fail("bra wants a label");
    const uint32_t target = label_blocks_[operand(0).reg];
    if (now_->guard == ptx::kNone) return end_jump(target);
    const uint32_t next = new_block();
    end_branch(now_->guard, now_->guard_negated, target, next);
    block_ = next;
}

void Selector::pick_branch_table() {
    expect_operands(2, 2);
    if (tables_.empty()) find_tables();
    const std::string_view name = operand(1).name;
    const auto found = tables_.find(name);
    if (found == tables_.end()) fail("unknown branch targets " + std::string(name.substr(0, 80)));
    Table& table = found->second;
    table_targets_ += table.source->targets.size();
    if (table_targets_ > kMaxTableTargets) fail("more than 1048576 branch targets in a function");
    const uint32_t index = source(0, Type::b32);
    if (table.targets == nullptr) table.targets = resolve(*table.source);
    Block& block = body_.blocks[block_];
    block.targets = table.targets;
    block.end = End::table;
    block.condition = index;
    block.line = now_->line;
    block_ = kNoBlock;
}

void Selector::find_tables() {
    for (const ptx::BranchTable& table : source_.tables) tables_[table.name] = {&table, nullptr};
    for (size_t i = 0; i < source_.labels.size(); ++i)
        labels_by_name_.emplace(source_.labels[i].name, uint32_t(i));
}

Targets Selector::resolve(const ptx::BranchTable& table) const {
    std::vector<uint32_t> blocks;
    blocks.reserve(table.targets.size());
    for (const auto target : table.targets) {
        const auto label = labels_by_name_.find(target);
        if (label == labels_by_name_.end()) fail("unknown label " + std::string(target.substr(0, 80)));
        blocks.push_back(label_blocks_[label->second]);
    }
    return std::make_shared<const std::vector<uint32_t>>(std::move(blocks));
}

Place Selector::argument(const ptx::Operand& operand, const ptx::Variable* formal, Inst& inst, bool written) {
    if (operand.kind == ptx::OperandKind::symbol) {
        if (const Storage* storage = storage_of(operand)) return place_of(*storage, inst, written);
    }
    if (operand.kind == ptx::OperandKind::sink) return Place{};
    Type type = formal != nullptr ? formal->type : Type::b32;
    if (operand.kind == ptx::OperandKind::reg) type = registers_[operand.reg];
    if (type == Type::pred) fail("a predicate cannot be an argument");
    Storage storage;
    storage.bytes = ptx::traits(type).bytes;
    storage.value = written ? dest(operand, type) : source(operand, type);
    return place_of(storage, inst, written);
}

void Selector::pick_call() {
    expect_operands(1, 2);
    auto site = std::make_unique<CallSite>();
    Inst inst;
    inst.line = now_->line;
    inst.crosses = true;
    inst.waits = true;
    const ptx::Operand& callee = operand(0);
    const ptx::Function* formal = nullptr;
    if (callee.kind == ptx::OperandKind::reg) {
        for (const ptx::Function& prototype : source_.prototypes) {
            if (now_->operands.size() == 2 && prototype.name == operand(1).name) formal = &prototype;
        }
        site->pointer = source(callee, Type::b64);
        inst.extra_uses.push_back(site->pointer);
        target_.calls_unknown = true;
    } else if (callee.kind == ptx::OperandKind::symbol) {
        const auto symbol = symbols_.find(module_, callee.name);
        if (symbol && symbol->kind == Symbol::Kind::function) {
            site->callee = symbol->index;
            target_.calls.push_back(symbol->index);
        } else if (const Builtin known = find_builtin(callee.name); known != Builtin::none) {
            site->builtin = known;
        } else {
            site->undefined = std::string(callee.name.substr(0, 200));
            const std::string reason = why_not_in_kernels(site->undefined);
            if (!reason.empty()) fail(reason);
            if (!symbols_.allow_undefined) undefined("undefined function " + site->undefined);
        }
    } else {
        fail("call wants a function");
    }
    for (size_t i = 0; i < now_->arguments.size(); ++i) {
        const ptx::Variable* variable =
            formal != nullptr && i < formal->params.size() ? &formal->params[i] : nullptr;
        site->arguments.push_back(argument(now_->arguments[i], variable, inst, false));
    }
    for (size_t i = 0; i < now_->returns.size(); ++i) {
        site->returns.push_back(argument(now_->returns[i], nullptr, inst, true));
    }
    inst.fn = handler(site->builtin != Builtin::none ? "call.builtin"_op : "call"_op);
    inst.call = site.get();
    image_.calls.push_back(std::move(site));
    body_.blocks[block_].code.push_back(std::move(inst));
}

}  // namespace softgpu::lower
