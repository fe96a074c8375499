// Matrix instructions: fragments in many registers, whose slots the handlers find in a table.
#include "exec/check/access.h"
#include "lower/select.h"

namespace softgpu::lower {
namespace {

std::vector<const ptx::Operand*> parts_of(const ptx::Operand& operand) {
    std::vector<const ptx::Operand*> parts;
    if (operand.kind != ptx::OperandKind::vector) return {&operand};
    for (const auto& part : operand.parts) parts.push_back(&part);
    return parts;
}

}  // namespace

// The address of a shared, global or generic operand as a generic one; what is to be added goes into
// `offset`.
uint32_t Selector::generic_address(const ptx::Operand& operand, Space space, uint64_t& offset) {
    const Memory memory = this->memory(operand, space);
    offset = memory.offset;
    if (memory.where.substr(0, 6) != "shared") return memory.address;
    uint32_t address = memory.address;
    if (memory.where == "shared32") {
        address = new_value(Width::wide);
        emit("cvt.u64.u32", address, memory.address);
    }
    const uint32_t generic = new_value(Width::wide);
    emit("add.b64", generic, address, immediate(Width::wide, Windows::shared));
    return generic;
}

void Selector::pick_ldmatrix() {
    const Type type = take_type();
    const bool trans = take("trans");
    const auto count_name = take_one({"x1", "x2", "x4"});
    const Space space = take_space();
    if (!take("sync") || !take("aligned") || !take("m8n8") || count_name.empty() || type != Type::b16)
        unknown();
    all_taken();
    expect_operands(2, 2);
    const unsigned count = unsigned(count_name[1] - '0');
    const auto parts = parts_of(operand(0));
    if (parts.size() != count) fail(full_name() + " wants " + std::to_string(count) + " destinations");
    uint64_t offset = 0;
    const uint32_t address = generic_address(operand(1), space, offset);
    Inst& inst = emit(std::string("ldmatrix.") + std::string(count_name) + (trans ? ".trans" : ""),
                      dest(*parts[0], Type::b32), address);
    inst.imm = offset;
    const uint8_t fields[] = {kD, kB, kC, kE};
    for (unsigned i = 1; i < count; ++i) {
        inst.values[fields[i]] = dest(*parts[i], Type::b32);
        inst.defs |= uint8_t(1 << fields[i]);
    }
    inst.crosses = true;
}

void Selector::pick_movmatrix() {
    if (!take("sync") || !take("aligned") || !take("m8n8") || !take("trans") || take_type() != Type::b16)
        unknown();
    all_taken();
    expect_operands(2, 2);
    emit("movmatrix", dest(0, Type::b32), source(1, Type::b32)).crosses = true;
}

// The registers of one factor or sum: those written come first in the table, then those read.
void Selector::fragment(Inst& inst, size_t index, Type type, size_t registers, bool written) {
    const auto parts = parts_of(operand(index));
    if (parts.size() != registers) {
        fail(full_name() + " wants " + std::to_string(registers) + " registers in operand " +
             std::to_string(index + 1));
    }
    for (const ptx::Operand* part : parts) {
        (written ? inst.extra_defs : inst.extra_uses)
            .push_back(written ? dest(*part, type) : source(*part, type));
    }
}

Inst Selector::tensor_instruction(const std::string& name) {
    Inst inst;
    inst.fn = handler(name);
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

struct Shape {
    unsigned m = 0, n = 0, k = 0;
};
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

std::string_view Selector::take_last() {
    if (modifiers_.empty()) unknown();
    const auto last = modifiers_.back();
    modifiers_.pop_back();
    return last;
}

// mma.sync.aligned.shape.row.col.d.a.b.c, with .satfinite for integers; bits end in .xor.popc or .and.popc.
void Selector::pick_mma() {
    const bool counts = take("popc");
    const std::string logic(counts ? take_one({"xor", "and"}) : "");
    const auto c = take_last(), b = take_last(), a = take_last(), d = take_last();
    if (!take("sync") || !take("aligned") || !take("row") || !take("col")) unknown();
    const bool finite = take("satfinite");
    const auto shape_name = take_last();
    all_taken();
    expect_operands(4, 4);
    const Shape shape = shape_named(shape_name);
    const unsigned a_bits = bits_named(a), b_bits = bits_named(b), d_bits = bits_named(d);
    if (c != d || !a_bits || !b_bits || !d_bits || shape.m * shape.n * shape.k == 0) unknown();
    std::string name =
        "mma." + std::string(shape_name) + (finite ? ".satfinite" : "") + (counts ? "." + logic : "");
    name += "." + std::string(d) + "." + std::string(a);
    if (a != "f16" && a != "bf16")
        name += "." + std::string(b);
    else if (a != b)
        unknown();
    Inst inst = tensor_instruction(name);
    fragment(inst, 0, register_type(d), registers_for(shape.m * shape.n, d_bits), true);
    fragment(inst, 1, register_type(a), registers_for(shape.m * shape.k, a_bits), false);
    fragment(inst, 2, register_type(b), registers_for(shape.k * shape.n, b_bits), false);
    fragment(inst, 3, register_type(c), registers_for(shape.m * shape.n, d_bits), false);
    body_.blocks[block_].code.push_back(std::move(inst));
}

void Selector::pick_wmma() {
    const bool load = take("load"), store = take("store");
    if (!load && !store && !take("mma")) unknown();
    if (!take("sync") || !take("aligned")) unknown();
    if (!load && !store) return wmma_multiply();
    const auto part = load ? take_one({"a", "b", "c"}) : take_one({"d"});
    const auto layout = take_one({"row", "col"}),
               shape_name = take_one({"m16n16k16", "m8n32k16", "m32n8k16"});
    const Space space = take_space();
    const auto type = take_last();
    all_taken();
    expect_operands(2, 3);
    if (part.empty() || layout.empty() || shape_name.empty()) unknown();
    const Shape shape = shape_named(shape_name);
    const bool sum = part == "c" || part == "d", byte = type == "u8" || type == "s8";
    const unsigned elements = sum ? shape.m * shape.n : part == "a" ? shape.m * shape.k : shape.k * shape.n;
    if (sum && type != "f16" && type != "f32" && type != "s32") unknown();
    const std::string typed = sum && type != "f16" ? "b32" : byte ? "b8" : std::string(type);
    // CUDA's fragments of f16 factors are of 8 registers whatever the shape.
    const size_t registers = !sum && type == "f16" ? 8 : registers_for(elements, bits_named(type));
    Inst inst = tensor_instruction("wmma." + std::string(load ? "load." : "store.") + std::string(part) +
                                   "." + std::string(layout) + "." + std::string(shape_name) + "." + typed);
    uint64_t offset = 0;
    uint32_t address = generic_address(operand(load ? 1 : 0), space, offset);
    if (offset != 0) {  // the op's number is the table
        const uint32_t moved = new_value(Width::wide);
        emit("add.b64", moved, address, immediate(Width::wide, offset));
        address = moved;
    }
    inst.values[kA] = address;
    if (now_->operands.size() == 3) inst.values[kB] = source(2, Type::b32);
    fragment(inst, load ? 0 : 1, register_type(type), registers, load);
    if (image_.checked) {
        inst.name = load ? "wmma.load" : "wmma.store";
        inst.moves = check::Matrix{bits_named(type) / 8, sum || part == "a" ? shape.m : shape.k,
                                   part == "a" ? shape.k : shape.n, layout == "col",
                                   load ? check::reads : check::writes}
                         .pack();
    }
    body_.blocks[block_].code.push_back(std::move(inst));
}

// wmma.mma of f16 names d and c only; all others name d, a, b and c.
void Selector::wmma_multiply() {
    const bool finite = take("satfinite");
    const auto shape_name = take_one({"m16n16k16", "m8n32k16", "m32n8k16"});
    for (int i = 0; i < 2; ++i) {
        if (take_one({"row", "col"}).empty()) unknown();
    }
    if (shape_name.empty() || (modifiers_.size() != 2 && modifiers_.size() != 4)) unknown();
    const auto types = modifiers_;
    modifiers_.clear();
    expect_operands(4, 4);
    const Shape shape = shape_named(shape_name);
    const bool halves = types.size() == 2;
    std::string name = "wmma." + std::string(shape_name) + (finite ? ".satfinite" : "");
    for (const auto type : types) name += "." + std::string(type);
    Inst inst = tensor_instruction(name);
    const unsigned bits = halves ? 16 : bits_named(types[1]), d_bits = bits_named(types[0]),
                   c_bits = bits_named(types.back());
    fragment(inst, 0, register_type(types[0]), registers_for(shape.m * shape.n, d_bits), true);
    fragment(inst, 1, Type::b32, halves ? 8 : registers_for(shape.m * shape.k, bits), false);
    fragment(inst, 2, Type::b32, halves ? 8 : registers_for(shape.k * shape.n, bits), false);
    fragment(inst, 3, register_type(types.back()), registers_for(shape.m * shape.n, c_bits), false);
    body_.blocks[block_].code.push_back(std::move(inst));
}

}  // namespace softgpu::lower
