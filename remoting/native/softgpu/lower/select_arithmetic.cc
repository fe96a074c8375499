// Arithmetic that takes several instructions, or an operand of its own kind.
#include "lower/select.h"

namespace softgpu::lower {

// mad.lo.cc and its kin: the product, then the sum with carries.
void Selector::pick_mad_with_carry() {
    static constexpr Code kSums[2][2][2] = {
        {{"add.b32"_op, "add.b64"_op}, {"add.cc.b32"_op, "add.cc.b64"_op}},
        {{"addc.b32"_op, "addc.b64"_op}, {"addc.cc.b32"_op, "addc.cc.b64"_op}}};
    const Type type = type_from_end();
    expect_operands(4, 4);
    const bool reads = now_->opcode == "madc", wide = width_of(type) == Width::wide;
    const uint32_t product = new_value(width_of(type));
    emit(code(), product, source(1, type), source(2, type));
    emit(kSums[reads][has("cc")][wide], dest(0, type), product, source(3, type));
}

void Selector::pick_mad24() {
    const Type type = type_from_end();
    expect_operands(4, 4);
    const uint32_t product = new_value(Width::narrow);
    emit(code(), product, source(1, type), source(2, type));
    emit(has("sat") ? "add.sat.s32"_op : "add.b32"_op, dest(0, type), product, source(3, type));
}

// min and max .xorsign.abs: the smaller or larger size, with the sign that a product would have.
void Selector::pick_signed_extreme() {
    const Type type = type_from_end();
    expect_operands(3, 3);
    const bool pair = type == Type::f16x2 || type == Type::bf16x2;
    const uint64_t sign = ptx::traits(type).bytes == 2 ? 0x8000u : pair ? 0x80008000u : 0x80000000u;
    const uint32_t signs = immediate(Width::narrow, sign), rest = immediate(Width::narrow, ~sign);
    const uint32_t a = source(1, type), b = source(2, type), differ = new_value(Width::narrow);
    const uint32_t x = new_value(Width::narrow), y = new_value(Width::narrow),
                   size = new_value(Width::narrow);
    emit("and.b32"_op, x, a, rest);
    emit("and.b32"_op, y, b, rest);
    emit(code(), size, x, y);
    emit("xor.b32"_op, differ, a, b);
    emit("and.b32"_op, differ, differ, signs);
    emit("or.b32"_op, dest(0, type), size, differ);
}

// lop3 with and, or, xor: d|p, a, b, c, table, q, where p is (d != 0) joined to q.
void Selector::pick_lop3() {
    expect_operands(6, 6);
    if (operand(4).kind != ptx::OperandKind::integer) fail("lop3 wants a number for its table");
    ptx::Operand to = operand(0);
    if (to.kind != ptx::OperandKind::pair) unknown();
    to.kind = to.reg == ptx::kNone ? ptx::OperandKind::sink : ptx::OperandKind::reg;
    const uint32_t with = predicate_source(operand(5)), d = new_value(Width::narrow);
    emit(code(), d, source(1, Type::b32), source(2, Type::b32), source(3, Type::b32)).imm =
        operand(4).bits & 0xff;
    const uint32_t test = new_value(Width::predicate);
    emit("setp.ne.b32"_op, test, d, immediate(Width::narrow, 0));
    const uint32_t joined = combine(test, false, with);
    emit_copy(dest(to, Type::b32), d);
    if (to.second == ptx::kNone) return;
    if (registers_[to.second] != Type::pred) fail("lop3 wants a predicate after '|'");
    emit_copy(to.second, joined);
}

// A function of a pair is that of each half.
void Selector::pick_halves() {
    const Type type = type_from_end();
    expect_operands(2, 2);
    const uint32_t from = source(1, type);
    uint32_t results[2];
    for (size_t i = 0; i < 2; ++i) {
        const uint32_t half = new_value(Width::narrow);
        results[i] = new_value(Width::narrow);
        emit(kHalf[i], half, from);
        emit(code(), results[i], half);
    }
    emit("pack.b32.b16"_op, dest(0, type), results[0], results[1]);
}

}  // namespace softgpu::lower
