// Matrix instructions: fragments in many registers, whose slots the handlers find in a table.
#include "exec/check/access.h"
#include "lower/select.h"

namespace softgpu::lower {

std::vector<const ptx::Operand*> registers_of(const ptx::Operand& operand) {
    std::vector<const ptx::Operand*> parts;
    if (operand.kind != ptx::OperandKind::vector) return {&operand};
    for (const auto& part : operand.parts) parts.push_back(&part);
    return parts;
}

// The address of a shared, global or generic operand as a generic one; what is to be added goes into
// `offset`.
uint32_t Selector::generic_address(const ptx::Operand& operand, Space space, uint64_t& offset) {
    const Memory memory = this->memory(operand, space);
    offset = memory.offset;
    if (memory.where != Where::shared32 && memory.where != Where::shared64) return memory.address;
    uint32_t address = memory.address;
    if (memory.where == Where::shared32) {
        address = new_value(Width::wide);
        emit("cvt.u64.u32"_op, address, memory.address);
    }
    const uint32_t generic = new_value(Width::wide);
    emit("add.b64"_op, generic, address, immediate(Width::wide, Windows::shared));
    return generic;
}

void Selector::pick_ldmatrix() {
    expect_operands(2, 2);
    const size_t count = has("x4") ? 4 : has("x2") ? 2 : 1;
    const auto parts = registers_of(operand(0));
    if (parts.size() != count) fail(full_name() + " wants " + std::to_string(count) + " destinations");
    uint64_t offset = 0;
    const uint32_t address = generic_address(operand(1), space(), offset);
    Inst& inst = emit(code(), dest(*parts[0], Type::b32), address);
    inst.imm = offset;
    const uint8_t fields[] = {kD, kB, kC, kE};
    for (size_t i = 1; i < count; ++i) {
        inst.values[fields[i]] = dest(*parts[i], Type::b32);
        inst.defs |= uint8_t(1 << fields[i]);
    }
    inst.crosses = true;
}

// The registers of one factor or sum: those written come first in the table, then those read.
void Selector::fragment(Inst& inst, size_t index, Type type, size_t registers, bool written) {
    const auto parts = registers_of(operand(index));
    if (parts.size() != registers) {
        fail(full_name() + " wants " + std::to_string(registers) + " registers in operand " +
             std::to_string(index + 1));
    }
    for (const ptx::Operand* part : parts) {
        (written ? inst.extra_defs : inst.extra_uses)
            .push_back(written ? dest(*part, type) : source(*part, type));
    }
}

Inst Selector::tensor_instruction() {
    Inst inst;
    inst.fn = handler(code());
    inst.line = now_->line;
    inst.crosses = true;
    inst.slot_table = true;
    return inst;
}

namespace {

// How many 32-bit registers (or f64 ones) a lane has for so many elements of a warp's matrix.
size_t registers_for(unsigned elements, unsigned bits) {
    return bits == 64 ? elements / 32 : elements * bits / 1024;
}

using Shape = Selector::Shape;
Shape shape_named(std::string_view name) {
    Shape shape;
    unsigned* part = nullptr;
    for (const char c : name) {
        if (c == 'm' || c == 'n' || c == 'k')
            part = c == 'm' ? &shape.m : c == 'n' ? &shape.n : &shape.k;
        else if (part == nullptr || c < '0' || c > '9' || *part > 999)
            return {};
        else
            *part = *part * 10 + unsigned(c - '0');
    }
    return shape;
}

// Of types that only matrices have, too.
unsigned bits_named(std::string_view name) {
    if (name == "tf32") return 32;
    if (name == "b1") return 1;
    if (name == "u4" || name == "s4") return 4;
    return ptx::traits(ptx::type_named(name)).bytes * 8u;
}

ptx::Type register_type(std::string_view name) {
    return name == "f32" ? ptx::Type::f32 : name == "f64" ? ptx::Type::f64 : ptx::Type::b32;
}

}  // namespace

// The modifier that names the shape: m16n8k16.
Shape Selector::shape() const {
    for (const auto modifier : now_->mods) {
        const Shape found = shape_named(modifier);
        if (found.m * found.n * found.k != 0) return found;
    }
    unknown();
}

// Of mma and wmma.mma, the types of d, a, b and c: the last four that are types. wmma's of f16 has two.
std::vector<std::string_view> Selector::matrix_types() const {
    std::vector<std::string_view> types;
    for (const auto modifier : now_->mods) {
        if (bits_named(modifier) != 0) types.push_back(modifier);
    }
    return types;
}

// mma.sync.aligned.shape.row.col.d.a.b.c
void Selector::pick_mma() {
    expect_operands(4, 4);
    const Shape shape = this->shape();
    const auto types = matrix_types();
    const auto d = types[0], a = types[1], b = types[2], c = types[3];
    Inst inst = tensor_instruction();
    fragment(inst, 0, register_type(d), registers_for(shape.m * shape.n, bits_named(d)), true);
    fragment(inst, 1, register_type(a), registers_for(shape.m * shape.k, bits_named(a)), false);
    fragment(inst, 2, register_type(b), registers_for(shape.k * shape.n, bits_named(b)), false);
    fragment(inst, 3, register_type(c), registers_for(shape.m * shape.n, bits_named(c)), false);
    body_.blocks[block_].code.push_back(std::move(inst));
}

// wmma.load and wmma.store
void Selector::pick_wmma_move() {
    expect_operands(2, 3);
    const bool load = has("load"), first = has("a"), sum = has("c") || has("d");
    const Shape shape = this->shape();
    const auto type = now_->mods.back();
    const unsigned elements = sum ? shape.m * shape.n : first ? shape.m * shape.k : shape.k * shape.n;
    // CUDA's fragments of f16 factors are of 8 registers whatever the shape.
    const size_t registers = !sum && type == "f16" ? 8 : registers_for(elements, bits_named(type));
    Inst inst = tensor_instruction();
    uint64_t offset = 0;
    uint32_t address = generic_address(operand(load ? 1 : 0), space(), offset);
    if (offset != 0) {  // the op's number is the table
        const uint32_t moved = new_value(Width::wide);
        emit("add.b64"_op, moved, address, immediate(Width::wide, offset));
        address = moved;
    }
    inst.values[kA] = address;
    if (now_->operands.size() == 3) inst.values[kB] = source(2, Type::b32);
    fragment(inst, load ? 0 : 1, register_type(type), registers, load);
    if (image_.checked) {
        inst.name = load ? "wmma.load" : "wmma.store";
        inst.moves = check::Matrix{bits_named(type) / 8, sum || first ? shape.m : shape.k,
                                   first ? shape.k : shape.n, has("col"), load ? check::reads : check::writes}
                         .pack();
    }
    body_.blocks[block_].code.push_back(std::move(inst));
}

// wmma.mma of f16 names d and c only; all others name d, a, b and c.
void Selector::pick_wmma_multiply() {
    expect_operands(4, 4);
    const auto types = matrix_types();
    const Shape shape = this->shape();
    const bool halves = types.size() == 2;
    Inst inst = tensor_instruction();
    const unsigned bits = halves ? 16 : bits_named(types[1]), d_bits = bits_named(types[0]),
                   c_bits = bits_named(types.back());
    fragment(inst, 0, register_type(types[0]), registers_for(shape.m * shape.n, d_bits), true);
    fragment(inst, 1, Type::b32, halves ? 8 : registers_for(shape.m * shape.k, bits), false);
    fragment(inst, 2, Type::b32, halves ? 8 : registers_for(shape.k * shape.n, bits), false);
    fragment(inst, 3, register_type(types.back()), registers_for(shape.m * shape.n, c_bits), false);
    body_.blocks[block_].code.push_back(std::move(inst));
}

}  // namespace softgpu::lower
