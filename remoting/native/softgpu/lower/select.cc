// A function's blocks, and how an instruction's name is taken apart; the families of instructions are in the
// other select files.
#include "lower/select.h"

#include <algorithm>

#include "exec/handlers.h"

namespace softgpu::lower {

Width width_of(ptx::Type type) {
    if (type == ptx::Type::pred) return Width::predicate;
    return ptx::traits(type).bytes == 8 ? Width::wide : Width::narrow;
}

bool is_float(ptx::Type type) {
    return type >= ptx::Type::f16;
}
bool is_signed(ptx::Type type) {
    return type >= ptx::Type::s8 && type <= ptx::Type::s64;
}

Selector::Selector(const std::vector<ptx::Module>& modules, size_t module, const ptx::Function& source,
                   Symbols& symbols, Image& image, Function& target)
    : modules_(modules),
      module_(module),
      source_(source),
      symbols_(symbols),
      image_(image),
      target_(target) {}

Body Selector::run() {
    body_.values.reserve(source_.registers.size() + 64);
    registers_ = source_.registers;
    split_wide_registers();
    for (const Type type : registers_) new_value(width_of(type));
    place_storage();
    make_blocks();
    if (!source_.kernel) body_.params = param_storage_;
    return std::move(body_);
}

// A register of 128 bits is two of 64, behind all others; its own value is never used.
void Selector::split_wide_registers() {
    for (uint32_t reg = 0; reg < source_.registers.size(); ++reg) {
        if (source_.registers[reg] != Type::b128) continue;
        halves_[reg] = uint32_t(registers_.size());
        registers_.insert(registers_.end(), 2, Type::b64);
    }
}

std::array<ptx::Operand, 2> Selector::halves(const ptx::Operand& operand) const {
    std::array<ptx::Operand, 2> both{operand, operand};
    if (operand.kind == ptx::OperandKind::sink) return both;
    const auto found = operand.kind == ptx::OperandKind::reg ? halves_.find(operand.reg) : halves_.end();
    if (found == halves_.end()) fail(full_name() + " wants a register of 128 bits");
    for (uint32_t i = 0; i < 2; ++i) both[i].reg = found->second + i;
    return both;
}

void Selector::fail(const std::string& what) const {
    if (now_ == nullptr) throw ptx::Error(source_.line, what);
    throw ptx::Error(now_->line, what, now_->column);
}

void Selector::undefined(const std::string& what) const {
    throw ptx::Undefined(now_->line, what, now_->column);
}

std::string Selector::full_name() const {
    std::string name(now_->opcode.substr(0, 80));
    for (const auto modifier : now_->mods) name += "." + std::string(modifier.substr(0, 80));
    return name;
}

void Selector::unknown() const {
    fail("unknown instruction " + full_name());
}

bool Selector::has(std::string_view modifier) const {
    return std::find(now_->mods.begin(), now_->mods.end(), modifier) != now_->mods.end();
}

std::optional<size_t> Selector::which(std::initializer_list<std::string_view> modifiers) const {
    for (size_t i = 0; i < modifiers.size(); ++i) {
        if (has(modifiers.begin()[i])) return i;
    }
    return std::nullopt;
}

ptx::Type Selector::type_from_end(size_t place) const {
    if (now_->mods.size() <= place) unknown();
    return ptx::type_named(now_->mods[now_->mods.size() - 1 - place]);
}

Handler Selector::handler(Code code) const {
    const Handler found = find_handler(code);
    if (found == nullptr) unknown();
    return found;
}

// ---- blocks

uint32_t Selector::new_block() {
    body_.blocks.emplace_back();
    return uint32_t(body_.blocks.size() - 1);
}

// The current block goes on into `block` unless it has ended otherwise.
void Selector::start_block(uint32_t block) {
    if (block_ != kNoBlock) end_jump(block);
    block_ = block;
}

void Selector::end_jump(uint32_t target) {
    Block& block = body_.blocks[block_];
    block.end = End::jump;
    block.target = target;
    block.line = now_ ? now_->line : source_.line;
    block_ = kNoBlock;
}

void Selector::end_branch(uint32_t condition, bool negated, uint32_t target, uint32_t next) {
    Block& block = body_.blocks[block_];
    block.end = End::branch;
    block.condition = condition;
    block.negated = negated;
    block.target = target;
    block.next = next;
    block.line = now_->line;
    block_ = kNoBlock;
}

void Selector::make_blocks() {
    std::vector<std::vector<uint32_t>> labels_at(source_.code.size() + 1);
    block_ = new_block();
    for (size_t label = 0; label < source_.labels.size(); ++label) {
        labels_at[source_.labels[label].at].push_back(uint32_t(label));
    }
    label_blocks_.resize(source_.labels.size());
    for (size_t at = 0; at <= source_.code.size(); ++at) {
        if (labels_at[at].empty()) continue;
        const uint32_t block = new_block();
        for (const uint32_t label : labels_at[at]) label_blocks_[label] = block;
    }
    for (size_t at = 0; at <= source_.code.size(); ++at) {
        if (!labels_at[at].empty()) start_block(label_blocks_[labels_at[at][0]]);
        if (at == source_.code.size()) break;
        if (block_ == kNoBlock) block_ = new_block();  // after a jump, without a label: never reached
        instruction(source_.code[at]);
    }
    now_ = nullptr;
    guarded_ = false;
    if (block_ != kNoBlock) emit_return();
    if (return_block_ != kNoBlock) emit_returned_values();
}

// A function that gives values has one place to return from: what reads them all stands there once.
void Selector::emit_return() {
    if (source_.kernel || source_.returns.empty()) {
        emit_without_result(source_.kernel ? "exit"_op : "ret"_op);
        block_ = kNoBlock;
        return;
    }
    if (return_block_ == kNoBlock) return_block_ = new_block();
    end_jump(return_block_);
}

// The values are read here: they must be in their slots when the caller takes them.
void Selector::emit_returned_values() {
    block_ = return_block_;
    Inst& inst = emit_without_result("ret"_op);
    inst.waits = true;
    for (size_t i = 0; i < source_.returns.size(); ++i) {
        if (param_storage_[i].value != kNoValue) inst.extra_uses.push_back(param_storage_[i].value);
    }
    block_ = kNoBlock;
}

const Selector::Lower Selector::kPicks[] = {
    &Selector::pick_generic,
#include "pick_functions.inc"
};

// What may make a warp wait or end lanes is not executed under a guard: a branch goes around it.
void Selector::instruction(const ptx::Instruction& instruction) {
    now_ = &instruction;
    match_ = instructions::match(instruction.opcode, instruction.mods);
    if (!match_) unknown();
    uint32_t after = kNoBlock;
    guarded_ = instruction.guard != ptx::kNone;
    if (guarded_ && match_.form->waits) {
        const uint32_t inside = new_block();
        after = new_block();
        end_branch(instruction.guard, instruction.guard_negated, inside, after);
        block_ = inside;
        guarded_ = false;
    }
    (this->*kPicks[size_t(match_.form->pick)])();
    finish_dests();
    if (after != kNoBlock) start_block(after);
}

// Each operand is where the form says, and of the type that it says.
void Selector::pick_generic() {
    const auto forms = instructions::operands(*match_.form);
    expect_operands(forms.size(), forms.size());
    std::array<uint32_t, kFields> values;
    values.fill(kNoValue);
    uint64_t imm = 0;
    for (size_t i = 0; i < forms.size(); ++i) {
        const instructions::OperandForm& form = forms[i];
        if (form.field == instructions::kNumber) {
            if (operand(i).kind != ptx::OperandKind::integer) fail(full_name() + " wants a number");
            imm = operand(i).bits & 0xff;
            continue;
        }
        const Type type = match_.type(form);
        values[form.field] = form.field == kD ? dest(i, type, form.relaxed) : source(i, type, form.relaxed);
    }
    Inst& inst = emit(code(), values[kD], values[kA], values[kB], values[kC], values[kE]);
    inst.imm = imm;
    inst.crosses = match_.form->crosses;
}

// ---- emission

Inst& Selector::emit(Code code, uint32_t d, uint32_t a, uint32_t b, uint32_t c, uint32_t e) {
    Inst& inst = emit_without_result(code, a, b, c, e);
    inst.values[kD] = d;
    inst.defs = 1 << kD;
    return inst;
}

Inst& Selector::emit_without_result(Code code, uint32_t a, uint32_t b, uint32_t c, uint32_t e) {
    Inst inst;
    inst.fn = handler(code);
    if (image_.checked) inst.name = name_of(code);
    inst.values = {kNoValue, a, b, c, e, kNoValue};
    inst.line = now_ ? now_->line : source_.line;
    inst.waits = now_ != nullptr && match_.form->waits;
    if (guarded_) {
        inst.guard = now_->guard;
        inst.guard_negated = now_->guard_negated;
    }
    body_.blocks[block_].code.push_back(std::move(inst));
    return body_.blocks[block_].code.back();
}

void Selector::emit_copy(uint32_t d, uint32_t a) {
    const Width width = body_.values[d].width;
    emit(width == Width::predicate ? "mov.pred"_op
         : width == Width::wide    ? "mov.b64"_op
                                   : "mov.b32"_op,
         d, a)
        .copy = true;
}

}  // namespace softgpu::lower
