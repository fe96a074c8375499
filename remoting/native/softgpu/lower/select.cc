// Blocks, operands and storage; the families of instructions are in the other select files.
#include "lower/select.h"

#include <algorithm>
#include <cstring>

#include "exec/handlers.h"

namespace softgpu::lower {
namespace {

constexpr uint64_t kMaxLocalBytes = Limits::local_bytes;

const std::unordered_map<std::string_view, Special>& specials() {
    static const auto* names = new std::unordered_map<std::string_view, Special>{
        {"%tid.x", Special::tid_x},
        {"%tid.y", Special::tid_y},
        {"%tid.z", Special::tid_z},
        {"%ntid.x", Special::ntid_x},
        {"%ntid.y", Special::ntid_y},
        {"%ntid.z", Special::ntid_z},
        {"%ctaid.x", Special::ctaid_x},
        {"%ctaid.y", Special::ctaid_y},
        {"%ctaid.z", Special::ctaid_z},
        {"%nctaid.x", Special::nctaid_x},
        {"%nctaid.y", Special::nctaid_y},
        {"%nctaid.z", Special::nctaid_z},
        {"%tid.w", Special::zero},
        {"%ntid.w", Special::zero},
        {"%ctaid.w", Special::zero},
        {"%nctaid.w", Special::zero},
        {"%laneid", Special::laneid},
        {"%warpid", Special::warpid},
        {"%nwarpid", Special::nwarpid},
        {"%smid", Special::smid},
        {"%nsmid", Special::nsmid},
        {"%gridid", Special::gridid},
        {"%lanemask_eq", Special::lanemask_eq},
        {"%lanemask_le", Special::lanemask_le},
        {"%lanemask_lt", Special::lanemask_lt},
        {"%lanemask_ge", Special::lanemask_ge},
        {"%lanemask_gt", Special::lanemask_gt},
        {"%dynamic_smem_size", Special::dynamic_smem_size},
        {"%total_smem_size", Special::total_smem_size},
        {"%aggr_smem_size", Special::total_smem_size},
    };
    return *names;
}

uint64_t float_bits(uint64_t bits, bool narrow, ptx::Type type) {
    double wide = 0;
    float single = 0;
    const uint32_t low = uint32_t(bits);
    if (narrow)
        std::memcpy(&single, &low, 4), wide = single;
    else
        std::memcpy(&wide, &bits, 8), single = float(wide);
    if (type == ptx::Type::f64) {
        if (!narrow) return bits;
        uint64_t out = 0;
        std::memcpy(&out, &wide, 8);
        return out;
    }
    if (narrow) return low;
    uint32_t out = 0;
    std::memcpy(&out, &single, 4);
    return out;
}

}  // namespace

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

std::string bit_name(ptx::Type type) {
    return "b" + std::to_string(ptx::traits(type).bytes * 8);
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
    for (const Type type : source_.registers) {
        if (type == Type::b128) throw ptx::Error(source_.line, "128-bit registers are not supported");
        new_value(width_of(type));
    }
    place_storage();
    make_blocks();
    if (!source_.kernel) body_.params = param_storage_;
    return std::move(body_);
}

void Selector::fail(const std::string& what) const {
    throw ptx::Error(now_ ? now_->line : source_.line, what);
}

std::string Selector::full_name() const {
    std::string name(now_->opcode.substr(0, 80));
    for (const auto modifier : now_->mods) name += "." + std::string(modifier.substr(0, 80));
    return name;
}

void Selector::unknown() const {
    fail("unknown instruction " + full_name());
}

bool Selector::take(std::string_view modifier) {
    const auto found = std::find(modifiers_.begin(), modifiers_.end(), modifier);
    if (found == modifiers_.end()) return false;
    modifiers_.erase(found);
    return true;
}

std::string_view Selector::take_one(std::initializer_list<std::string_view> modifiers) {
    for (const auto modifier : modifiers) {
        if (take(modifier)) return modifier;
    }
    return {};
}

ptx::Type Selector::take_type() {
    if (modifiers_.empty()) unknown();
    const Type type = ptx::type_named(modifiers_.back());
    if (type == Type::none) unknown();
    modifiers_.pop_back();
    return type;
}

void Selector::all_taken() const {
    if (!modifiers_.empty()) unknown();
}

std::string Selector::rounding() {
    const auto mode = take_one({"rn", "rz", "rm", "rp"});
    return mode.empty() || mode == "rn" ? "" : "." + std::string(mode);
}

Handler Selector::handler(const std::string& name) const {
    const Handler found = find_handler(name);
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
}

// The return values are read here: they must be in their slots when the caller takes them.
void Selector::emit_return() {
    Inst& inst = emit_without_result(source_.kernel ? "exit" : "ret");
    for (size_t i = 0; i < source_.returns.size() && !source_.kernel; ++i) {
        if (param_storage_[i].value != kNoValue) inst.extra_uses.push_back(param_storage_[i].value);
    }
    block_ = kNoBlock;
}

// Instructions that may make a warp wait or end lanes are not executed under a guard: a branch goes around
// them.
bool Selector::needs_branch_for_guard() const {
    static constexpr std::string_view kNames[] = {"ret",     "exit",      "trap",     "brkpt", "call",  "bar",
                                                  "barrier", "shfl",      "vote",     "match", "redux", "bra",
                                                  "brx",     "nanosleep", "ldmatrix", "mma"};
    return std::find(std::begin(kNames), std::end(kNames), now_->opcode) != std::end(kNames);
}

void Selector::instruction(const ptx::Instruction& instruction) {
    now_ = &instruction;
    modifiers_ = instruction.mods;
    const auto pick = picks().find(instruction.opcode);
    if (pick == picks().end()) unknown();
    uint32_t after = kNoBlock;
    guarded_ = instruction.guard != ptx::kNone;
    if (guarded_ && instruction.opcode != "bra" && needs_branch_for_guard()) {
        const uint32_t inside = new_block();
        after = new_block();
        end_branch(instruction.guard, instruction.guard_negated, inside, after);
        block_ = inside;
        guarded_ = false;
    }
    (this->*pick->second)();
    finish_dests();
    if (after != kNoBlock) start_block(after);
}

// ---- values

uint32_t Selector::new_value(Width width) {
    Value value;
    value.width = width;
    body_.values.push_back(value);
    return uint32_t(body_.values.size() - 1);
}

uint32_t Selector::constant(SlotInit init) {
    const auto key =
        std::make_tuple(int(init.kind), init.wide, init.is_signed, int(init.bytes), init.index, init.value);
    const auto known = constants_.find(key);
    if (known != constants_.end()) return known->second;
    const uint32_t value = new_value(init.wide ? Width::wide : Width::narrow);
    body_.values[value].constant = true;
    body_.values[value].init = init;
    constants_.emplace(key, value);
    return value;
}

uint32_t Selector::immediate(Width width, uint64_t bits) {
    SlotInit init;
    init.wide = width == Width::wide;
    init.value = init.wide ? bits : uint32_t(bits);
    return constant(init);
}

uint32_t Selector::special(std::string_view name, Type type) {
    const bool wide = ptx::traits(type).bytes == 8;
    const auto known = specials().find(name);
    if (known != specials().end()) {
        SlotInit init;
        init.kind = SlotInit::Kind::special;
        init.index = uint32_t(known->second);
        init.wide = wide;
        return constant(init);
    }
    const bool clock = name == "%clock" || name == "%clock_hi" || name == "%clock64";
    const bool timer = name == "%globaltimer" || name == "%globaltimer_lo" || name == "%globaltimer_hi";
    if (clock || timer) {
        const uint32_t both = new_value(Width::wide);
        emit(clock ? "clock" : "globaltimer", both);
        if (wide) return both;
        const bool high = name == "%clock_hi" || name == "%globaltimer_hi";
        const uint32_t part = new_value(Width::narrow);
        emit(high ? "part1.b64.b32" : "part0.b64.b32", part, both);
        return part;
    }
    if (name == "%is_explicit_cluster" || name.substr(0, 9) == "%cluster_" ||
        name.substr(0, 10) == "%clusterid") {
        return immediate(wide ? Width::wide : Width::narrow, 0);
    }
    fail("unknown special register " + std::string(name.substr(0, 80)));
}

const ptx::Operand& Selector::operand(size_t index) const {
    if (index >= now_->operands.size()) fail(full_name() + " wants more operands");
    return now_->operands[index];
}

void Selector::expect_operands(size_t least, size_t most) const {
    const size_t count = now_->operands.size();
    if (count < least || count > most) fail(full_name() + " has " + std::to_string(count) + " operands");
}

uint32_t Selector::literal(const ptx::Operand& operand, Type type) {
    const Width width = width_of(type);
    if (operand.kind == ptx::OperandKind::real) {
        if (type == Type::f16 || type == Type::bf16)
            fail("a half-precision immediate is written in hexadecimal");
        const bool as_float = type == Type::f32 || type == Type::f64;
        return immediate(width, as_float ? float_bits(operand.bits, operand.narrow, type) : operand.bits);
    }
    if (type == Type::f32 || type == Type::f64) {
        const double number = double(int64_t(operand.bits));
        uint64_t bits = 0;
        std::memcpy(&bits, &number, 8);
        return immediate(width, float_bits(bits, false, type));
    }
    return immediate(width, operand.bits);
}

uint32_t Selector::source(const ptx::Operand& operand, Type type, bool relaxed) {
    using Kind = ptx::OperandKind;
    if (type == Type::pred) return predicate_source(operand);
    switch (operand.kind) {
        case Kind::reg: {
            const Type declared = source_.registers[operand.reg];
            const unsigned have = ptx::traits(declared).bytes, want = ptx::traits(type).bytes;
            if (declared == Type::pred || (have != want && !(relaxed && have > want))) {
                fail("register " + std::string(operand.name.substr(0, 80)) + " has " +
                     std::to_string(have * 8) + " bits where " + full_name() + " wants " +
                     std::to_string(want * 8));
            }
            if (operand.negated) fail("'!' wants a predicate");
            if (have == 8 && want < 8) {
                const uint32_t low = new_value(Width::narrow);
                emit("part0.b64.b32", low, operand.reg);
                return low;
            }
            return operand.reg;
        }
        case Kind::integer:
        case Kind::real:
            return literal(operand, type);
        case Kind::special:
            return special(operand.name, type);
        case Kind::symbol: {
            const uint32_t address = symbol_address(operand);
            if (ptx::traits(type).bytes == 8) return address;
            if (ptx::traits(type).bytes != 4) fail("an address needs 32 or 64 bits");
            SlotInit narrow = body_.values[address].init;
            narrow.wide = false;
            return constant(narrow);
        }
        default:
            fail("an operand of " + full_name() + " is of the wrong kind");
    }
}

uint32_t Selector::predicate_source(const ptx::Operand& operand) {
    if (operand.kind == ptx::OperandKind::integer) {
        const uint32_t zero = immediate(Width::narrow, operand.bits ? 1 : 0);
        const uint32_t p = new_value(Width::predicate);
        emit("setp.ne.b32", p, zero, immediate(Width::narrow, 0));
        return p;
    }
    if (operand.kind != ptx::OperandKind::reg || source_.registers[operand.reg] != Type::pred) {
        fail("a predicate expected in " + full_name());
    }
    if (!operand.negated) return operand.reg;
    const uint32_t inverted = new_value(Width::predicate);
    emit("not.pred", inverted, operand.reg);
    return inverted;
}

uint32_t Selector::dest(const ptx::Operand& operand, Type type, bool relaxed) {
    if (operand.kind == ptx::OperandKind::sink) return new_value(width_of(type));
    if (operand.kind != ptx::OperandKind::reg || operand.negated)
        fail("the result of " + full_name() + " wants a register");
    const Type declared = source_.registers[operand.reg];
    const unsigned have = ptx::traits(declared).bytes, want = ptx::traits(type).bytes;
    if ((declared == Type::pred) != (type == Type::pred) || (have != want && !(relaxed && have > want))) {
        fail("register " + std::string(operand.name.substr(0, 80)) + " has " + std::to_string(have * 8) +
             " bits where " + full_name() + " gives " + std::to_string(want * 8));
    }
    if (have == 8 && want < 8) {
        const uint32_t narrow = new_value(Width::narrow);
        pending_.push_back({narrow, operand.reg, type});
        return narrow;
    }
    return operand.reg;
}

// A result narrower than its register: extended by the sign that its type has.
void Selector::finish_dests() {
    for (size_t i = 0; i < pending_.size(); ++i) {
        const PendingDest pending = pending_[i];
        emit(is_signed(pending.type) ? "cvt.s64.s32" : "cvt.u64.u32", pending.wide, pending.narrow);
    }
    pending_.clear();
}

Inst& Selector::emit(const std::string& name, uint32_t d, uint32_t a, uint32_t b, uint32_t c, uint32_t e) {
    Inst& inst = emit_without_result(name, a, b, c, e);
    inst.values[kD] = d;
    inst.defs = 1 << kD;
    return inst;
}

Inst& Selector::emit_without_result(const std::string& name, uint32_t a, uint32_t b, uint32_t c, uint32_t e) {
    Inst inst;
    inst.fn = handler(name);
    inst.values = {kNoValue, a, b, c, e, kNoValue};
    inst.line = now_ ? now_->line : source_.line;
    inst.waits = now_ != nullptr && needs_branch_for_guard();
    if (guarded_) {
        inst.guard = now_->guard;
        inst.guard_negated = now_->guard_negated;
    }
    body_.blocks[block_].code.push_back(std::move(inst));
    return body_.blocks[block_].code.back();
}

void Selector::emit_copy(uint32_t d, uint32_t a) {
    const Width width = body_.values[d].width;
    emit(width == Width::predicate ? "mov.pred"
         : width == Width::wide    ? "mov.b64"
                                   : "mov.b32",
         d, a)
        .copy = true;
}

// ---- storage

const ptx::Variable* Selector::variable_of(const ptx::Operand& operand) const {
    if (operand.variable != ptx::kNone) return &source_.variables[operand.variable];
    const auto param = param_index_.find(operand.name);
    if (param == param_index_.end() || operand.reg != ptx::kNone) return nullptr;
    const size_t returns = source_.returns.size();
    return param->second < returns ? &source_.returns[param->second]
                                   : &source_.params[param->second - returns];
}

const Storage* Selector::storage_of(const ptx::Operand& operand) const {
    if (operand.variable != ptx::kNone) {
        const Storage& storage = variable_storage_[operand.variable];
        return storage.bytes == 0 && storage.value == kNoValue ? nullptr : &storage;
    }
    const auto param = param_index_.find(operand.name);
    if (param == param_index_.end() || operand.reg != ptx::kNone || source_.kernel) return nullptr;
    return &param_storage_[param->second];
}

// A scalar .param variable lives in a register when every access is to the whole of it.
bool Selector::promotable(const ptx::Variable& variable) const {
    const unsigned bytes = ptx::traits(variable.type).bytes;
    return !variable.array && variable.vector == 1 && bytes <= 8 && !in_memory_.contains(&variable);
}

void Selector::find_variables_in_memory() {
    for (const ptx::Instruction& instruction : source_.code) {
        for (const ptx::Operand& operand : instruction.operands) {
            if (operand.kind != ptx::OperandKind::address && operand.kind != ptx::OperandKind::symbol)
                continue;
            const ptx::Variable* variable = variable_of(operand);
            if (variable == nullptr) continue;
            const Type type =
                instruction.mods.empty() ? Type::none : ptx::type_named(instruction.mods.back());
            const bool whole = operand.kind == ptx::OperandKind::address && operand.bits == 0 &&
                               ptx::traits(type).bytes == ptx::traits(variable->type).bytes;
            const bool vector =
                std::find_if(instruction.mods.begin(), instruction.mods.end(), [](auto modifier) {
                    return modifier == "v2" || modifier == "v4";
                }) != instruction.mods.end();
            const bool plain = instruction.opcode == "ld" || instruction.opcode == "st";
            if (!whole || vector || !plain) in_memory_.insert(variable);
        }
    }
}

void Selector::place_storage() {
    auto local = [this](const ptx::Variable& variable) {
        Storage storage;
        storage.bytes = uint32_t(std::min<uint64_t>(variable.bytes, kMaxLocalBytes));
        const uint64_t at =
            (uint64_t(body_.local_bytes) + variable.align - 1) / variable.align * variable.align;
        if (variable.bytes > kMaxLocalBytes || at + variable.bytes > kMaxLocalBytes) {
            throw ptx::Error(variable.line,
                             "more than " + std::to_string(kMaxLocalBytes) + " bytes of local memory");
        }
        storage.local_offset = uint32_t(at);
        body_.local_bytes = uint32_t(at + variable.bytes);
        if (storage.bytes == 0) storage.bytes = 1;
        return storage;
    };
    size_t number = 0;
    for (const auto* list : {&source_.returns, &source_.params}) {
        for (const ptx::Variable& variable : *list) param_index_.emplace(variable.name, number++);
    }
    find_variables_in_memory();
    number = 0;
    for (const auto* list : {&source_.returns, &source_.params}) {
        for (const ptx::Variable& variable : *list) {
            ++number;
            Storage storage;
            if (source_.kernel) {
                storage.bytes = 1;
            } else if (variable.space == Space::none) {
                // A .reg parameter is the register that the parser has made for it, in the same order.
                uint32_t reg = 0;
                for (size_t i = 0; i + 1 < number; ++i) {
                    const auto& before = i < source_.returns.size()
                                             ? source_.returns[i]
                                             : source_.params[i - source_.returns.size()];
                    reg += before.space == Space::none;
                }
                storage.value = reg;
                storage.bytes = uint32_t(variable.bytes);
            } else if (promotable(variable)) {
                storage.value = new_value(width_of(variable.type));
                storage.bytes = uint32_t(variable.bytes);
            } else {
                storage = local(variable);
            }
            param_storage_.push_back(storage);
        }
    }
    for (size_t i = 0; i < source_.variables.size(); ++i) {
        const ptx::Variable& variable = source_.variables[i];
        Storage storage;
        Symbol symbol;
        if (variable.space == Space::param) {
            if (promotable(variable)) {
                storage.value = new_value(width_of(variable.type));
                storage.bytes = uint32_t(variable.bytes);
            } else {
                storage = local(variable);
            }
        } else if (variable.space == Space::local) {
            storage = local(variable);
        } else {
            symbol = symbols_.place(variable, image_);
        }
        variable_storage_.push_back(storage);
        variable_symbols_.push_back(symbol);
    }
}

// The address of a symbol as a value of 64 bits, in its own space for shared and local memory.
uint32_t Selector::symbol_address(const ptx::Operand& operand) {
    SlotInit init;
    init.wide = true;
    init.value = operand.bits;
    if (const Storage* storage = storage_of(operand)) {
        if (storage->value != kNoValue) fail(std::string(operand.name.substr(0, 80)) + " has no address");
        init.kind = SlotInit::Kind::local;
        init.value += storage->local_offset;
        return constant(init);
    }
    if (operand.variable == ptx::kNone && source_.kernel && param_index_.contains(operand.name)) {
        init.value += Windows::param + target_.params[param_index_[operand.name]].offset;
        return constant(init);
    }
    Symbol symbol;
    if (operand.variable != ptx::kNone) {
        symbol = variable_symbols_[operand.variable];
    } else {
        const auto found = symbols_.find(module_, operand.name);
        if (!found) fail("undefined symbol " + std::string(operand.name.substr(0, 200)));
        symbol = *found;
    }
    init.index = symbol.index;
    switch (symbol.kind) {
        case Symbol::Kind::global:
            init.kind = SlotInit::Kind::global;
            break;
        case Symbol::Kind::shared:
            init.kind = SlotInit::Kind::shared;
            target_.shared_used.push_back(symbol.index);
            break;
        default:
            init.kind = SlotInit::Kind::immediate;
            init.value += Windows::function + symbol.index;
            init.index = 0;
            target_.calls.push_back(symbol.index);
            break;
    }
    return constant(init);
}

Place Selector::place_of(const Storage& storage, Inst& inst, bool written) {
    Place place;
    place.bytes = storage.bytes;
    if (storage.value == kNoValue) {
        place.local = true;
        place.offset = storage.local_offset;
    } else {
        place.offset = storage.value;  // becomes a slot when slots are known
        (written ? inst.extra_defs : inst.extra_uses).push_back(storage.value);
    }
    return place;
}

}  // namespace softgpu::lower
