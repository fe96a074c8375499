// Loads, stores, atomics, and the asynchronous copies that are plain ones here.
#include <algorithm>
#include <utility>

#include "exec/check/access.h"
#include "exec/handlers.h"
#include "lower/select.h"

namespace softgpu::lower {
namespace {

// The pick's choices in the forms of loads and stores (instructions.txt): which handlers share a survey of
// their addresses (surveys.cc), and which do what others may see at once.
enum Shared : unsigned { kAlone, kKept, kWhole };

}  // namespace

ptx::Space Selector::space() const {
    static constexpr Space kSpaces[] = {Space::global, Space::constant, Space::shared,
                                        Space::shared, Space::shared,   Space::local,
                                        Space::param,  Space::param,    Space::param};
    const auto found = which({"global", "const", "shared", "shared::cta", "shared::cluster", "local", "param",
                              "param::entry", "param::func"});
    return found ? kSpaces[*found] : Space::none;
}

uint32_t Selector::orders() const {
    constexpr uint32_t kRelaxed = check::strong | check::passes;
    static constexpr std::pair<std::string_view, uint32_t> kOrders[] = {
        {"volatile", kRelaxed | check::is_volatile},
        {"relaxed", kRelaxed},
        {"mmio", kRelaxed},
        {"acquire", kRelaxed | check::acquires},
        {"release", kRelaxed | check::releases},
        {"acq_rel", kRelaxed | check::acquires | check::releases}};
    uint32_t order = 0;
    for (const auto& [name, means] : kOrders) {
        if (has(name)) order |= means;
    }
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
            emit("cvt.u64.u32"_op, memory.address, operand.reg);
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
            memory.where = Where::global;
            break;
        case Space::shared:
            memory.where = narrow ? Where::shared32 : Where::shared64;
            break;
        case Space::local:
            memory.where = Where::local;
            break;
        case Space::param:
            memory.where = source_.kernel ? Where::generic : Where::local;
            break;
        case Space::none:
            memory.where = Where::generic;
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

// The registers of a load or a store: one, two or four, or the two halves of one of 128 bits.
std::vector<const ptx::Operand*> Selector::parts_of_access(const ptx::Operand& operand,
                                                           std::array<ptx::Operand, 2>& both) const {
    const bool wide = has("b128");
    const size_t count = has("v4") ? 4 : has("v2") || wide ? 2 : 1;
    std::vector<const ptx::Operand*> parts;
    if (wide) {
        both = halves(operand);
        parts = {&both[0], &both[1]};
    } else if (operand.kind == ptx::OperandKind::vector) {
        for (const auto& part : operand.parts) parts.push_back(&part);
    } else {
        parts.push_back(&operand);
    }
    if (parts.size() != count) fail(full_name() + " wants " + std::to_string(count) + " registers");
    return parts;
}

// The handler of an access, and what passes may make of it.
void Selector::finish_access(Inst& inst, const Memory& at, unsigned bytes, uint32_t orders) {
    const auto where = unsigned(at.where);
    const Handler whole = orders == 0 ? nullptr : find_handler(code({where, kWhole}));
    if (whole != nullptr)
        inst.fn = whole;
    else
        inst.access = {find_handler(code({where, kKept})), at.where, bytes};
    inst.imm = at.offset;
    inst.order = orders;
    if (has("param") || has("param::func") || has("param::entry")) inst.name = {};  // filled by the call
}

// ld, ldu
void Selector::pick_ld() {
    expect_operands(2, 3);  // a third is a cache policy
    const Type type = has("b128") ? Type::b64 : type_from_end();
    std::array<ptx::Operand, 2> both;
    auto parts = parts_of_access(operand(0), both);
    if (space() == Space::param && load_param(operand(1), type, parts)) return;
    const Memory from = memory(operand(1), space());
    const uint32_t order = orders();
    uint32_t to[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
    for (size_t i = 0; i < parts.size(); ++i) to[i] = dest(*parts[i], type, true);
    if (order) emit_without_result("spin"_op);
    Inst& inst = emit(code({unsigned(from.where), kAlone}), to[0], from.address);
    finish_access(inst, from, ptx::traits(type).bytes * unsigned(parts.size()), order);
    const uint8_t fields[] = {kD, kB, kC, kE};
    for (size_t i = 1; i < parts.size(); ++i) {
        inst.values[fields[i]] = to[i];
        inst.defs |= uint8_t(1 << fields[i]);
    }
    inst.crosses = parts.size() > 1;
    if (order) emit_without_result("fence"_op);
}

void Selector::pick_st() {
    expect_operands(2, 3);
    const Type type = has("b128") ? Type::b64 : type_from_end();
    std::array<ptx::Operand, 2> both;
    const auto parts = parts_of_access(operand(1), both);
    uint32_t from[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
    for (size_t i = 0; i < parts.size(); ++i) from[i] = source(*parts[i], type, true);
    if (const Storage* storage = storage_of(operand(0)); storage != nullptr && storage->value != kNoValue) {
        return emit_copy(storage->value, from[0]);
    }
    const Memory to = memory(operand(0), space());
    const uint32_t order = orders();
    if (order) emit_without_result("fence"_op);
    Inst& inst =
        emit_without_result(code({unsigned(to.where), kAlone}), to.address, from[0], from[1], from[2]);
    finish_access(inst, to, ptx::traits(type).bytes * unsigned(parts.size()), order);
    inst.values[kD] = from[3];
}

// Where an atomic works, as its forms have it (instructions.txt, `let seen`).
unsigned Selector::seen(const Memory& at) const {
    if (at.where == Where::local) fail("atomics work on global and shared memory");
    return at.where == Where::generic ? 3 : unsigned(at.where);
}

// atom, and the red whose sum somebody may see at once
void Selector::pick_atom() {
    const bool returns = now_->opcode == "atom", compares = has("cas");
    const Type type = type_from_end();
    const uint32_t order = orders();
    if (order & check::releases) emit_without_result("fence"_op);  // sums that are gathered come first
    const size_t first = returns ? 1 : 0, values = compares ? 2 : 1;
    expect_operands(first + 1 + values, first + 2 + values);
    const Memory at = memory(operand(first), space());
    const unsigned where = seen(at);
    const uint32_t b = source(first + 1, type), c = compares ? source(first + 2, type) : kNoValue;
    const uint32_t d = returns ? dest(0, type) : new_value(width_of(type));
    Inst& inst = emit(code({where}), d, at.address, b, c);
    inst.imm = at.offset;
    inst.order = order;
    inst.crosses = true;
}

// A sum of integers that nobody reads may be gathered first.
void Selector::pick_red() {
    const uint32_t order = orders();
    if (order & check::releases) emit_without_result("fence"_op);
    expect_operands(2, 3);
    const Memory at = memory(operand(0), space());
    const unsigned where = seen(at);
    Inst& inst = emit_without_result(code({where}), at.address, source(1, type_from_end()));
    inst.imm = at.offset;
    inst.order = order;
    inst.adds = true;
}

// atom.exch.b128, atom.cas.b128
void Selector::pick_wide_atom() {
    const uint32_t order = orders();
    if (order & check::releases) emit_without_result("fence"_op);
    const size_t values = has("cas") ? 2 : 1;
    expect_operands(2 + values, 3 + values);
    seen(memory(operand(1), space()));
    Inst inst = tensor_instruction();
    uint64_t offset = 0;
    const uint32_t base = generic_address(operand(1), space(), offset), address = new_value(Width::wide);
    emit("add.b64"_op, address, base, immediate(Width::wide, offset));
    inst.values[kA] = address;
    for (const ptx::Operand& half : halves(operand(0))) inst.extra_defs.push_back(dest(half, Type::b64));
    for (size_t i = 0; i < values; ++i) {
        for (const ptx::Operand& half : halves(operand(2 + i)))
            inst.extra_uses.push_back(source(half, Type::b64));
    }
    if (image_.checked) inst.name = name_of(code());
    inst.order = order;
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

// Nothing here is cached, so that every policy is the same.
void Selector::pick_policy() {
    emit_copy(dest(0, Type::b64), immediate(Width::wide, 0));
}

// cp.async copies at once; what waits for it finds it done.
void Selector::pick_copy_commit() {
    if (image_.checked) emit_without_result("check.copies.end"_op);
}
void Selector::pick_copy_wait_all() {
    if (image_.checked) emit_without_result("check.copies.end"_op);
    if (image_.checked) emit_without_result("check.copies.wait"_op);
}
void Selector::pick_copy_wait() {
    if (image_.checked && operand(0).kind == ptx::OperandKind::integer)
        emit_without_result("check.copies.wait"_op).imm = operand(0).bits;
}

// With a source size only that many bytes are read, and the rest becomes zero: here all or nothing. The lanes
// that read, `parts` being zero in the others.
uint32_t Selector::lanes_that_read(const uint32_t* parts, size_t count) {
    const uint32_t wanted = new_value(Width::predicate);
    if (operand(3).kind == ptx::OperandKind::reg && registers_[operand(3).reg] == Type::pred)
        emit("not.pred"_op, wanted, predicate_source(operand(3)));  // it says what to leave out
    else
        emit("setp.ne.b32"_op, wanted, source(3, Type::b32), immediate(Width::narrow, 0));
    for (size_t i = 0; i < count; ++i) emit("mov.b32"_op, parts[i], immediate(Width::narrow, 0));
    if (!guarded_) return wanted;
    const uint32_t guard = new_value(Width::predicate);
    uint32_t own = now_->guard;
    if (now_->guard_negated) {
        own = new_value(Width::predicate);
        emit("not.pred"_op, own, now_->guard);
    }
    emit("and.pred"_op, guard, wanted, own);
    return guard;
}

void Selector::pick_copy() {
    static constexpr Code kLoads[] = {"ld.global.b32"_op, "ld.global.b32.v2"_op, "ld.global.b32.v4"_op};
    expect_operands(3, 5);
    if (operand(2).kind != ptx::OperandKind::integer) fail("cp.async wants a number of bytes");
    const uint64_t bytes = operand(2).bits;
    if (bytes != 4 && bytes != 8 && bytes != 16) fail("cp.async copies 4, 8 or 16 bytes");
    const Memory to = memory(operand(0), Space::shared), from = memory(operand(1), Space::global);
    const size_t count = bytes / 4;
    const unsigned vector = count == 4 ? 2 : unsigned(count) - 1;
    uint32_t parts[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
    for (size_t i = 0; i < count; ++i) parts[i] = new_value(Width::narrow);
    const bool sized = now_->operands.size() > (has("L2::cache_hint") ? 4 : 3);
    const uint32_t wanted = sized ? lanes_that_read(parts, count) : kNoValue;
    Inst& load = emit(kLoads[vector], parts[0], from.address);
    load.imm = from.offset;
    const uint8_t fields[] = {kD, kB, kC, kE};
    for (size_t i = 1; i < count; ++i) {
        load.values[fields[i]] = parts[i];
        load.defs |= uint8_t(1 << fields[i]);
    }
    load.crosses = true;
    if (sized) load.guard = wanted, load.guard_negated = false;
    Inst& store =
        emit_without_result(code({unsigned(to.where), vector}), to.address, parts[0], parts[1], parts[2]);
    store.imm = to.offset;
    store.order = check::later;
    store.values[kD] = parts[3];
}

}  // namespace softgpu::lower
