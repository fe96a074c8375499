// Loads, stores, atomics, and the asynchronous copies that are plain ones here.
#include <algorithm>
#include <utility>

#include "exec/check/access.h"
#include "exec/handlers.h"
#include "lower/select.h"

namespace softgpu::lower {
namespace {

// "u8", "s16", "b32": how a value of the type is read from memory into a lane.
std::string load_name(ptx::Type type) {
    const unsigned bytes = ptx::traits(type).bytes;
    if (bytes >= 4) return "b" + std::to_string(bytes * 8);
    return (is_signed(type) ? "s" : "u") + std::to_string(bytes * 8);
}

std::string vector_name(unsigned count) {
    return count == 1 ? "" : count == 2 ? ".v2" : ".v4";
}

}  // namespace

ptx::Space Selector::take_space() {
    if (take("global")) return Space::global;
    if (take("const")) return Space::constant;
    if (take("shared") || take("shared::cta") || take("shared::cluster")) return Space::shared;
    if (take("local")) return Space::local;
    if (take("param") || take("param::entry") || take("param::func")) return Space::param;
    return Space::none;
}

uint32_t Selector::take_memory_modifiers() {
    constexpr uint32_t kRelaxed = check::strong | check::passes;
    static constexpr std::pair<std::string_view, uint32_t> kOrders[] = {
        {"volatile", kRelaxed | check::is_volatile},
        {"relaxed", kRelaxed},
        {"mmio", kRelaxed},
        {"acquire", kRelaxed | check::acquires},
        {"release", kRelaxed | check::releases},
        {"acq_rel", kRelaxed | check::acquires | check::releases},
        {"sc", kRelaxed | check::acquires | check::releases}};
    uint32_t order = 0;
    std::erase_if(modifiers_, [&order](std::string_view modifier) {
        static constexpr std::string_view kIgnored[] = {"weak", "cta", "gpu", "sys",   "cluster",
                                                        "ca",   "cg",  "cs",  "lu",    "cv",
                                                        "wb",   "wt",  "nc",  "noftz", "unified"};
        for (const auto& [name, means] : kOrders) {
            if (modifier != name) continue;
            order |= means;
            return true;
        }
        if (modifier.substr(0, 4) == "L1::" || modifier.substr(0, 4) == "L2::") return true;
        return std::find(std::begin(kIgnored), std::end(kIgnored), modifier) != std::end(kIgnored);
    });
    return order;
}

Selector::Memory Selector::memory(const ptx::Operand& operand, Space space) {
    if (operand.kind != ptx::OperandKind::address) fail("an address in brackets expected in " + full_name());
    Memory memory;
    bool narrow = false;
    if (operand.reg != ptx::kNone) {
        const unsigned bytes = ptx::traits(registers_[operand.reg]).bytes;
        if (bytes != 4 && bytes != 8) fail("an address needs a register of 32 or 64 bits");
        narrow = bytes == 4;
        memory.address = operand.reg;
        memory.offset = operand.bits;
        if (narrow && space != Space::shared) {
            memory.address = new_value(Width::wide);
            emit("cvt.u64.u32", memory.address, operand.reg);
        }
    } else if (!operand.name.empty()) {
        memory.address = symbol_address(operand);
        const SlotInit::Kind kind = body_.values[memory.address].init.kind;
        if (kind == SlotInit::Kind::shared)
            space = Space::shared;
        else if (kind == SlotInit::Kind::local)
            space = Space::local;
        else if (kind == SlotInit::Kind::global)
            space = Space::global;
        else
            space = Space::none;  // a kernel's parameter, by its generic address
    } else {
        memory.address = immediate(Width::wide, operand.bits);
    }
    switch (space) {
        case Space::global:
        case Space::constant:
            memory.where = "global";
            break;
        case Space::shared:
            memory.where = narrow ? "shared32" : "shared64";
            break;
        case Space::local:
            memory.where = "local";
            break;
        case Space::param:
            memory.where = source_.kernel ? "generic" : "local";
            break;
        case Space::none:
            memory.where = "generic";
            break;
    }
    return memory;
}

// ld.param of what does not change while the kernel runs, or of a promoted variable: no load at all.
bool Selector::load_param(const ptx::Operand& from, Type type, std::vector<const ptx::Operand*>& parts) {
    const ptx::Variable* variable = variable_of(from);
    if (variable == nullptr || variable->space != Space::param || from.reg != ptx::kNone) return false;
    if (const Storage* storage = storage_of(from)) {
        if (storage->value == kNoValue) return false;
        emit_copy(dest(*parts[0], type, true), storage->value);
        return true;
    }
    const unsigned bytes = ptx::traits(type).bytes;
    const uint64_t end = from.bits + uint64_t(bytes) * parts.size();
    if (from.bits > variable->bytes || end > variable->bytes)
        fail("a read outside parameter " + std::string(from.name.substr(0, 200)));
    for (size_t i = 0; i < parts.size(); ++i) {
        SlotInit init;
        init.kind = SlotInit::Kind::param;
        init.wide = bytes == 8;
        init.is_signed = is_signed(type);
        init.bytes = uint8_t(bytes);
        init.index = uint32_t(target_.params[param_index_[from.name]].offset + from.bits + i * bytes);
        emit_copy(dest(*parts[i], type, true), constant(init));
    }
    return true;
}

// ld, ldu
void Selector::pick_ld() {
    Type type = take_type();
    const Space space = take_space();
    const uint32_t orders = take_memory_modifiers();
    const bool v2 = take("v2"), v4 = take("v4");
    all_taken();
    expect_operands(2, 3);  // a third is a cache policy
    const bool wide = type == Type::b128;
    if (type == Type::pred || (wide && (v2 || v4))) unknown();
    const unsigned count = v4 ? 4 : v2 || wide ? 2 : 1;
    std::vector<const ptx::Operand*> parts;
    std::array<ptx::Operand, 2> both;
    if (wide) {
        both = halves(operand(0)), type = Type::b64;
        parts = {&both[0], &both[1]};
    } else if (operand(0).kind == ptx::OperandKind::vector) {
        for (const auto& part : operand(0).parts) parts.push_back(&part);
    } else {
        parts.push_back(&operand(0));
    }
    if (parts.size() != count) fail(full_name() + " wants " + std::to_string(count) + " destinations");
    if (space == Space::param && load_param(operand(1), type, parts)) return;
    const Memory from = memory(operand(1), space);
    uint32_t to[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
    for (unsigned i = 0; i < count; ++i) to[i] = dest(*parts[i], type, true);
    if (orders) emit_without_result("spin");
    const std::string name = "ld." + from.where + "." + load_name(type) + vector_name(count);
    const bool whole = orders != 0 && find_handler(name + ".whole") != nullptr;
    Inst& inst = emit(whole ? name + ".whole" : name, to[0], from.address);
    inst.imm = from.offset;
    if (whole && image_.checked) inst.name = name;
    if (!whole) inst.access = {from.where, name, ptx::traits(type).bytes * count};
    inst.order = orders;
    if (space == Space::param) inst.name.clear();  // filled by the call
    const uint8_t fields[] = {kD, kB, kC, kE};
    for (unsigned i = 1; i < count; ++i) {
        inst.values[fields[i]] = to[i];
        inst.defs |= uint8_t(1 << fields[i]);
    }
    inst.crosses = count > 1;
    if (orders) emit_without_result("fence");
}

void Selector::pick_st() {
    Type type = take_type();
    const Space space = take_space();
    const uint32_t orders = take_memory_modifiers();
    const bool v2 = take("v2"), v4 = take("v4");
    all_taken();
    expect_operands(2, 3);
    const bool wide = type == Type::b128;
    if (type == Type::pred || (wide && (v2 || v4))) unknown();
    const unsigned count = v4 ? 4 : v2 || wide ? 2 : 1;
    std::vector<const ptx::Operand*> parts;
    std::array<ptx::Operand, 2> both;
    if (wide) {
        both = halves(operand(1)), type = Type::b64;
        parts = {&both[0], &both[1]};
    } else if (operand(1).kind == ptx::OperandKind::vector) {
        for (const auto& part : operand(1).parts) parts.push_back(&part);
    } else {
        parts.push_back(&operand(1));
    }
    if (parts.size() != count) fail(full_name() + " wants " + std::to_string(count) + " values");
    uint32_t from[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
    for (unsigned i = 0; i < count; ++i) from[i] = source(*parts[i], type, true);
    if (const Storage* storage = storage_of(operand(0)); storage != nullptr && storage->value != kNoValue) {
        return emit_copy(storage->value, from[0]);
    }
    if (space == Space::constant) fail("constant memory cannot be written");
    const Memory to = memory(operand(0), space);
    if (orders) emit_without_result("fence");
    const std::string name = "st." + to.where + "." + bit_name(type) + vector_name(count);
    const bool whole = orders != 0 && find_handler(name + ".whole") != nullptr;
    Inst& inst = emit_without_result(whole ? name + ".whole" : name, to.address, from[0], from[1], from[2]);
    inst.imm = to.offset;
    if (whole && image_.checked) inst.name = name;
    if (!whole) inst.access = {to.where, name, ptx::traits(type).bytes * count};
    inst.order = orders;
    if (space == Space::param) inst.name.clear();
    inst.values[kD] = from[3];
}

// atom, red
void Selector::pick_atom() {
    const bool returns = now_->opcode == "atom";
    const Type type = take_type();
    const Space space = take_space();
    const uint32_t orders = take_memory_modifiers();
    if (orders & check::releases) emit_without_result("fence");  // sums that are gathered come first
    if (type == Type::b128) return pick_wide_atom(space, orders);
    const std::string name(take_one({"add", "and", "or", "xor", "exch", "min", "max", "inc", "dec", "cas"}));
    all_taken();
    const size_t first = returns ? 1 : 0;
    const size_t values = name == "cas" ? 2 : 1;
    expect_operands(first + 1 + values, first + 2 + values);
    if (name.empty() || (!returns && (name == "exch" || name == "cas"))) unknown();
    const Memory at = memory(operand(first), space);
    if (at.where == "local") fail("atomics work on global and shared memory");
    const bool bits = name == "and" || name == "or" || name == "xor" || name == "exch" || name == "cas";
    const bool sum = name == "add" && !is_float(type);
    const std::string typed = bits || sum ? bit_name(type) : std::string(ptx::traits(type).name);
    const bool quiet = !returns && sum;
    const std::string full = std::string(quiet ? "red." : "atom.") + at.where + "." + name + "." + typed;
    const uint32_t b = source(first + 1, type), c = values == 2 ? source(first + 2, type) : kNoValue;
    if (quiet) {
        Inst& inst = emit_without_result(full, at.address, b);
        inst.imm = at.offset;
        inst.order = orders;
        inst.adds = true;
        return;
    }
    const uint32_t d = returns ? dest(0, type) : new_value(width_of(type));
    Inst& inst = emit(full, d, at.address, b, c);
    inst.imm = at.offset;
    inst.order = orders;
    inst.crosses = true;
}

// atom.exch.b128, atom.cas.b128
void Selector::pick_wide_atom(Space space, uint32_t orders) {
    const auto name = take_one({"exch", "cas"});
    all_taken();
    if (now_->opcode != "atom" || name.empty()) unknown();
    const size_t values = name == "cas" ? 2 : 1;
    expect_operands(2 + values, 3 + values);
    if (memory(operand(1), space).where == "local") fail("atomics work on global and shared memory");
    Inst inst = tensor_instruction("atom.generic." + std::string(name) + ".b128");
    uint64_t offset = 0;
    const uint32_t base = generic_address(operand(1), space, offset), address = new_value(Width::wide);
    emit("add.b64", address, base, immediate(Width::wide, offset));
    inst.values[kA] = address;
    for (const ptx::Operand& half : halves(operand(0))) inst.extra_defs.push_back(dest(half, Type::b64));
    for (size_t i = 0; i < values; ++i) {
        for (const ptx::Operand& half : halves(operand(2 + i)))
            inst.extra_uses.push_back(source(half, Type::b64));
    }
    if (image_.checked) inst.name = "atom.generic." + std::string(name) + ".b128";
    inst.order = orders;
    if (guarded_) {
        inst.guard = now_->guard;
        inst.guard_negated = now_->guard_negated;
    }
    body_.blocks[block_].code.push_back(std::move(inst));
}

// Its addresses are of multicast objects, which this driver refuses to make: no program here can have one.
void Selector::pick_multimem() {
    fail("unsupported instruction " + full_name() +
         ": it works on one place in the memory of several GPUs at once, and software GPUs have no multicast "
         "objects");
}

void Selector::pick_prefetch() {
    modifiers_.clear();
}

// Nothing here is cached, so that every policy is the same.
void Selector::pick_policy() {
    modifiers_.clear();
    emit_copy(dest(0, Type::b64), immediate(Width::wide, 0));
}

// cp.async copies at once; what waits for it finds it done.
void Selector::pick_cp() {
    if (!take("async")) unknown();
    if (take("commit_group")) {
        if (image_.checked) emit_without_result("check.copies.end");
        return all_taken();
    }
    if (take("wait_all")) {
        if (image_.checked) emit_without_result("check.copies.end");
        if (image_.checked) emit_without_result("check.copies.wait");
        return all_taken();
    }
    if (take("wait_group")) {
        if (image_.checked && operand(0).kind == ptx::OperandKind::integer)
            emit_without_result("check.copies.wait").imm = operand(0).bits;
        return all_taken();
    }
    if (!take("ca") && !take("cg")) unknown();
    const bool hinted = take("L2::cache_hint");
    std::erase_if(modifiers_, [](std::string_view modifier) { return modifier.substr(0, 4) == "L2::"; });
    if (!(take("shared") || take("shared::cta")) || !take("global")) unknown();
    all_taken();
    expect_operands(3, 5);
    if (operand(2).kind != ptx::OperandKind::integer) fail("cp.async wants a number of bytes");
    const uint64_t bytes = operand(2).bits;
    if (bytes != 4 && bytes != 8 && bytes != 16) fail("cp.async copies 4, 8 or 16 bytes");
    const Memory to = memory(operand(0), Space::shared), from = memory(operand(1), Space::global);
    const unsigned count = unsigned(bytes / 4);
    const std::string tail = std::string(".b32") + (count == 1 ? "" : count == 2 ? ".v2" : ".v4");
    uint32_t parts[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
    for (unsigned i = 0; i < count; ++i) parts[i] = new_value(Width::narrow);
    // With a source size only that many bytes are read, and the rest becomes zero: here all or nothing.
    const bool sized = now_->operands.size() > (hinted ? 4 : 3);
    uint32_t wanted = kNoValue;
    if (sized) {
        wanted = new_value(Width::predicate);
        if (operand(3).kind == ptx::OperandKind::reg && registers_[operand(3).reg] == Type::pred)
            emit("not.pred", wanted, predicate_source(operand(3)));  // it says what to leave out
        else
            emit("setp.ne.b32", wanted, source(3, Type::b32), immediate(Width::narrow, 0));
        for (unsigned i = 0; i < count; ++i) emit("mov.b32", parts[i], immediate(Width::narrow, 0));
        if (guarded_) {
            const uint32_t guard = new_value(Width::predicate);
            uint32_t own = now_->guard;
            if (now_->guard_negated) {
                own = new_value(Width::predicate);
                emit("not.pred", own, now_->guard);
            }
            emit("and.pred", guard, wanted, own);
            wanted = guard;
        }
    }
    Inst& load = emit("ld.global" + tail, parts[0], from.address);
    load.imm = from.offset;
    const uint8_t fields[] = {kD, kB, kC, kE};
    for (unsigned i = 1; i < count; ++i) {
        load.values[fields[i]] = parts[i];
        load.defs |= uint8_t(1 << fields[i]);
    }
    load.crosses = true;
    if (sized) load.guard = wanted, load.guard_negated = false;
    Inst& store = emit_without_result("st." + to.where + tail, to.address, parts[0], parts[1], parts[2]);
    store.imm = to.offset;
    store.order = check::later;
    store.values[kD] = parts[3];
}

}  // namespace softgpu::lower
