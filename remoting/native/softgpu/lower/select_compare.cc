// Comparisons, selections and moves.
#include "lower/select.h"

namespace softgpu::lower {

// The form's comparison, as a fresh predicate.
uint32_t Selector::compare(uint32_t a, uint32_t b) {
    const uint32_t test = new_value(Width::predicate);
    emit(code(), test, a, b);
    return test;
}

// test, or its opposite, joined to a third predicate by the and, or, xor that the instruction has.
uint32_t Selector::combine(uint32_t test, bool inverted, uint32_t with) {
    static constexpr Code kLogic[] = {"and.pred"_op, "or.pred"_op, "xor.pred"_op};
    if (inverted) {
        const uint32_t opposite = new_value(Width::predicate);
        emit("not.pred"_op, opposite, test);
        test = opposite;
    }
    const auto logic = which({"and", "or", "xor"});
    if (!logic) return test;
    const uint32_t joined = new_value(Width::predicate);
    emit(kLogic[*logic], joined, test, with);
    return joined;
}

// The predicate that a comparison is joined to, if it is to be.
uint32_t Selector::third_predicate() {
    const bool joined = which({"and", "or", "xor"}).has_value();
    expect_operands(joined ? 4 : 3, joined ? 4 : 3);
    return joined ? predicate_source(operand(3)) : kNoValue;
}

// The comparisons of both halves of a pair, the lower first, each joined to a third predicate.
void Selector::compare_pairs(uint32_t (&tests)[2]) {
    const uint32_t with = third_predicate(), a = source(1, Type::b32), b = source(2, Type::b32);
    for (size_t i = 0; i < 2; ++i) {
        const uint32_t x = new_value(Width::narrow), y = new_value(Width::narrow);
        emit(kHalf[i], x, a);
        emit(kHalf[i], y, b);
        tests[i] = combine(compare(x, y), false, with);
    }
}

// p, or p|q: what setp writes. Either may be left out.
void Selector::write_predicates(uint32_t p, uint32_t q) {
    const ptx::Operand& to = operand(0);
    if (to.kind != ptx::OperandKind::pair) return emit_copy(dest(to, Type::pred), p);
    for (const auto& [reg, test] : {std::pair{to.reg, p}, std::pair{to.second, q}}) {
        if (reg == ptx::kNone) continue;
        if (registers_[reg] != Type::pred) fail("setp wants predicates");
        emit_copy(reg, test);
    }
}

void Selector::pick_setp() {
    const Type type = type_from_end();
    const uint32_t with = third_predicate();
    const uint32_t test = compare(source(1, type), source(2, type));
    const bool two = operand(0).kind == ptx::OperandKind::pair;
    const uint32_t q = two ? combine(test, true, with) : kNoValue;
    write_predicates(combine(test, false, with), q);
}

void Selector::pick_setp_pair() {
    if (operand(0).kind != ptx::OperandKind::pair) fail(full_name() + " wants two predicates");
    uint32_t tests[2];
    compare_pairs(tests);
    write_predicates(tests[0], tests[1]);
}

void Selector::pick_set() {
    const Type type = type_from_end(), result = type_from_end(1);
    const uint64_t yes = result == Type::f32              ? 0x3f800000u
                         : result == Type::f16            ? 0x3c00u
                         : result == Type::bf16           ? 0x3f80u
                         : ptx::traits(result).bytes == 2 ? 0xffffu
                                                          : ~0u;
    const uint32_t with = third_predicate();
    const uint32_t test = combine(compare(source(1, type), source(2, type)), false, with);
    emit("selp.b32"_op, dest(0, result), immediate(Width::narrow, yes), immediate(Width::narrow, 0), test);
}

void Selector::pick_set_pair() {
    const Type result = type_from_end(1);
    const uint64_t yes = result == Type::f16x2 ? 0x3c00u : result == Type::bf16x2 ? 0x3f80u : 0xffffu;
    const uint32_t one = immediate(Width::narrow, yes), zero = immediate(Width::narrow, 0);
    uint32_t tests[2], halves[2];
    compare_pairs(tests);
    for (int i = 0; i < 2; ++i) {
        halves[i] = new_value(Width::narrow);
        emit("selp.b32"_op, halves[i], one, zero, tests[i]);
    }
    emit("pack.b32.b16"_op, dest(0, Type::b32), halves[0], halves[1]);
}

// How a register is taken apart into so many equal parts, and put together.
const Selector::Parts& Selector::parts_of(Type type, size_t count) const {
    static constexpr Parts kParts[] = {
        {2, 2, Type::b8, "pack.b16.b8"_op, {"part0.b16.b8"_op, "part1.b16.b8"_op}},
        {4, 2, Type::b16, "pack.b32.b16"_op, {"part0.b32.b16"_op, "part1.b32.b16"_op}},
        {4,
         4,
         Type::b8,
         "pack.b32.b8"_op,
         {"part0.b32.b8"_op, "part1.b32.b8"_op, "part2.b32.b8"_op, "part3.b32.b8"_op}},
        {8, 2, Type::b32, "pack.b64.b32"_op, {"part0.b64.b32"_op, "part1.b64.b32"_op}},
        {8,
         4,
         Type::b16,
         "pack.b64.b16"_op,
         {"part0.b64.b16"_op, "part1.b64.b16"_op, "part2.b64.b16"_op, "part3.b64.b16"_op}},
    };
    for (const Parts& parts : kParts) {
        if (parts.bytes == ptx::traits(type).bytes && parts.count == count) return parts;
    }
    unknown();
}

// mov.b64 {lo, hi}, d
void Selector::unpack(const ptx::Operand& to, Type type) {
    const Parts& parts = parts_of(type, to.parts.size());
    const uint32_t from = source(1, type);
    for (size_t i = 0; i < to.parts.size(); ++i) {
        if (to.parts[i].kind == ptx::OperandKind::sink) continue;
        // Through a value of its own: a part may go where the source is.
        const uint32_t piece = new_value(Width::narrow);
        emit(parts.part[i], piece, from);
        emit_copy(dest(to.parts[i], parts.type, true), piece);
    }
}

void Selector::pack(const ptx::Operand& from, Type type) {
    const Parts& parts = parts_of(type, from.parts.size());
    uint32_t values[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
    for (size_t i = 0; i < from.parts.size(); ++i) values[i] = source(from.parts[i], parts.type, true);
    emit(parts.pack, dest(0, type), values[0], values[1], values[2], values[3]);
}

// mov.b128 of a whole register, or of two halves of 64 bits to or from one.
void Selector::move_wide() {
    auto parts_of = [this](const ptx::Operand& operand) {
        if (operand.kind != ptx::OperandKind::vector) return halves(operand);
        if (operand.parts.size() != 2) fail(full_name() + " wants two parts of 64 bits");
        return std::array<ptx::Operand, 2>{operand.parts[0], operand.parts[1]};
    };
    const auto to = parts_of(operand(0)), from = parts_of(operand(1));
    // Both are read before one is written: with halves on both sides they may be the same registers.
    uint32_t values[2];
    for (size_t i = 0; i < 2; ++i) {
        values[i] = new_value(Width::wide);
        emit_copy(values[i], source(from[i], Type::b64));
    }
    for (size_t i = 0; i < 2; ++i) {
        if (to[i].kind != ptx::OperandKind::sink) emit_copy(dest(to[i], Type::b64), values[i]);
    }
}

void Selector::pick_mov() {
    const Type type = type_from_end();
    expect_operands(2, 2);
    if (type == Type::b128) return move_wide();
    if (operand(0).kind == ptx::OperandKind::vector) return unpack(operand(0), type);
    if (operand(1).kind == ptx::OperandKind::vector) return pack(operand(1), type);
    emit_copy(dest(0, type), source(1, type));
}

void Selector::pick_cvta() {
    expect_operands(2, 2);
    const uint32_t from = source(1, Type::b64), to = dest(0, Type::b64);
    const bool shared = which({"shared", "shared::cta", "shared::cluster"}).has_value();
    if (!shared && !has("local")) return emit_copy(to, from);  // the address is the same in both
    const uint64_t window = shared ? Windows::shared : Windows::local;
    emit("add.b64"_op, to, from, immediate(Width::wide, has("to") ? 0 - window : window));
}

}  // namespace softgpu::lower
