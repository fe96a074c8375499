// Integer and float arithmetic.
#include "lower/select.h"

namespace softgpu::lower {

void Selector::integer3(const std::string& name, Type type) {
    all_taken();
    expect_operands(3, 3);
    emit(name, dest(0, type), source(1, type), source(2, type));
}

// The end of a float handler's name: ".rz.ftz.sat.f32".
std::string Selector::float_tail(Type type) {
    std::string tail = rounding();
    if (take("ftz")) tail += ".ftz";
    if (take("sat")) tail += ".sat";
    if (take("NaN")) tail += ".NaN";
    if (take("relu")) tail += ".relu";
    return tail + "." + std::string(ptx::traits(type).name);
}

// add, sub, addc, subc
void Selector::pick_add() {
    const Type type = take_type();
    std::string name(now_->opcode);
    if (is_float(type)) {
        if (name == "addc" || name == "subc") unknown();
        return integer3(name + float_tail(type), type);
    }
    if (type == Type::u16x2 || type == Type::s16x2)
        return integer3(name + "." + std::string(ptx::traits(type).name), type);
    const bool carries = take("cc") || name == "addc" || name == "subc";
    if (carries) {
        const std::string writes = now_->mods[0] == "cc" ? ".cc" : "";
        return integer3(name + writes + "." + bit_name(type), type);
    }
    if (take("sat")) return integer3(name + ".sat." + std::string(ptx::traits(type).name), type);
    integer3(name + "." + bit_name(type), type);
}

void Selector::pick_mul() {
    const Type type = take_type();
    if (is_float(type)) return integer3("mul" + float_tail(type), type);
    const std::string typed(ptx::traits(type).name);
    if (take("lo")) return integer3("mul.lo." + bit_name(type), type);
    if (take("hi")) return integer3("mul.hi." + typed, type);
    if (!take("wide")) unknown();
    all_taken();
    expect_operands(3, 3);
    const unsigned bytes = ptx::traits(type).bytes;
    if (bytes != 2 && bytes != 4) unknown();
    const Type result = bytes == 2 ? Type::b32 : Type::b64;
    emit("mul.wide." + typed, dest(0, result), source(1, type), source(2, type));
}

void Selector::pick_mul24() {
    const Type type = take_type();
    const bool high = take("hi");
    if (!high && !take("lo")) unknown();
    const bool sat = take("sat");
    all_taken();
    const std::string name =
        std::string("mul24.") + (high ? "hi." : "lo.") + std::string(ptx::traits(type).name);
    if (now_->opcode == "mul24")
        return expect_operands(3, 3), void(emit(name, dest(0, type), source(1, type), source(2, type)));
    expect_operands(4, 4);
    const uint32_t product = new_value(Width::narrow);
    emit(name, product, source(1, type), source(2, type));
    emit(sat ? "add.sat.s32" : "add.b32", dest(0, type), product, source(3, type));
}

// mad.lo.cc and its kin: the product, then the sum with carries.
void Selector::mad_with_carry(bool reads, bool writes, std::string_view part, Type type) {
    all_taken();
    expect_operands(4, 4);
    const uint32_t product = new_value(width_of(type));
    const std::string typed = part == "lo" ? bit_name(type) : std::string(ptx::traits(type).name);
    emit("mul." + std::string(part) + "." + typed, product, source(1, type), source(2, type));
    const std::string sum =
        std::string(reads ? "addc" : "add") + (writes ? ".cc" : "") + "." + bit_name(type);
    emit(sum, dest(0, type), product, source(3, type));
}

void Selector::pick_mad() {
    const Type type = take_type();
    if (is_float(type)) return pick_fma();
    const auto part = take_one({"lo", "hi", "wide"});
    const bool reads = now_->opcode == "madc", writes = take("cc");
    if (part.empty()) unknown();
    if (reads || writes) return part == "wide" ? unknown() : mad_with_carry(reads, writes, part, type);
    const bool sat = take("sat");
    all_taken();
    expect_operands(4, 4);
    const std::string typed(ptx::traits(type).name);
    const unsigned bytes = ptx::traits(type).bytes;
    if (part == "wide" && bytes != 2 && bytes != 4) unknown();
    const Type wide = bytes == 2 ? Type::b32 : Type::b64;
    const Type result = part == "wide" ? wide : type;
    const std::string name = part == "lo" ? "mad.lo." + bit_name(type)
                                          : "mad." + std::string(part) + (sat ? ".sat." : ".") + typed;
    if (part == "lo" && sat) unknown();
    emit(name, dest(0, result), source(1, type), source(2, type), source(3, result));
}

void Selector::pick_fma() {
    modifiers_ = now_->mods;
    const Type type = take_type();
    if (!is_float(type)) unknown();
    const std::string name = "fma" + float_tail(type);
    all_taken();
    expect_operands(4, 4);
    emit(name, dest(0, type), source(1, type), source(2, type), source(3, type));
}

void Selector::pick_fns() {
    if (ptx::traits(take_type()).bytes != 4) unknown();
    all_taken();
    expect_operands(4, 4);
    emit("fns.b32", dest(0, Type::b32), source(1, Type::b32), source(2, Type::b32), source(3, Type::s32));
}

// div, rem
void Selector::pick_divide() {
    const Type type = take_type();
    const std::string name(now_->opcode);
    if (!is_float(type)) return integer3(name + "." + std::string(ptx::traits(type).name), type);
    take("approx"), take("full");
    integer3(name + float_tail(type), type);
}

// min, max
void Selector::pick_min() {
    const Type type = take_type();
    const std::string name(now_->opcode);
    if (!is_float(type)) {
        const bool relu = take("relu");
        return integer3(name + (relu ? ".relu." : ".") + std::string(ptx::traits(type).name), type);
    }
    const bool sized = take("xorsign");
    if (!sized) return integer3(name + float_tail(type), type);
    if (!take("abs")) unknown();
    const std::string full = name + float_tail(type);
    all_taken();
    expect_operands(3, 3);
    // The smaller or larger size, with the sign that a product would have.
    const unsigned bytes = ptx::traits(type).bytes;
    const bool pair = type == Type::f16x2 || type == Type::bf16x2;
    const uint64_t sign = bytes == 2 ? 0x8000u : pair ? 0x80008000u : 0x80000000u;
    const uint32_t signs = immediate(Width::narrow, sign), rest = immediate(Width::narrow, ~sign);
    const uint32_t a = source(1, type), b = source(2, type), differ = new_value(Width::narrow);
    const uint32_t x = new_value(Width::narrow), y = new_value(Width::narrow),
                   size = new_value(Width::narrow);
    emit("and.b32", x, a, rest);
    emit("and.b32", y, b, rest);
    emit(full, size, x, y);
    emit("xor.b32", differ, a, b);
    emit("and.b32", differ, differ, signs);
    emit("or.b32", dest(0, type), size, differ);
}

// abs, neg
void Selector::pick_unary_sign() {
    const Type type = take_type();
    const std::string name(now_->opcode);
    const bool ftz = take("ftz");
    all_taken();
    expect_operands(2, 2);
    std::string tail(ptx::traits(type).name);
    if (!is_float(type) && name == "neg") tail = bit_name(type);
    const bool flushes = ftz && type == Type::f32;
    emit(name + (flushes ? ".ftz." : ".") + tail, dest(0, type), source(1, type));
}

// and, or, xor, not, cnot
void Selector::pick_bitwise() {
    const Type type = take_type();
    const std::string name = std::string(now_->opcode) + "." + (type == Type::pred ? "pred" : bit_name(type));
    all_taken();
    if (now_->opcode == "not" || now_->opcode == "cnot") {
        expect_operands(2, 2);
        emit(name, dest(0, type), source(1, type));
        return;
    }
    integer3(name, type);
}

void Selector::pick_shift() {
    const Type type = take_type();
    all_taken();
    expect_operands(3, 3);
    std::string tail = bit_name(type);
    if (now_->opcode == "shr") tail[0] = is_signed(type) ? 's' : 'u';
    emit(std::string(now_->opcode) + "." + tail, dest(0, type), source(1, type), source(2, Type::u32));
}

void Selector::pick_funnel() {
    const Type type = take_type();
    const auto way = take_one({"l", "r"}), mode = take_one({"clamp", "wrap"});
    all_taken();
    expect_operands(4, 4);
    emit("shf." + std::string(way) + "." + std::string(mode) + "." + bit_name(type), dest(0, type),
         source(1, type), source(2, type), source(3, Type::u32));
}

// lop3.b32 d, a, b, c, table; with and, or, xor: d|p, ..., q, where p is (d != 0) joined to q.
void Selector::pick_lop3() {
    const Type type = take_type();
    const auto logic = take_one({"and", "or", "xor"});
    all_taken();
    expect_operands(logic.empty() ? 5 : 6, logic.empty() ? 5 : 6);
    if (operand(4).kind != ptx::OperandKind::integer) fail("lop3 wants a number for its table");
    ptx::Operand to = operand(0);
    const bool two = to.kind == ptx::OperandKind::pair;
    if (two == logic.empty()) unknown();
    if (two) to.kind = to.reg == ptx::kNone ? ptx::OperandKind::sink : ptx::OperandKind::reg;
    const uint32_t with = two ? predicate_source(operand(5)) : kNoValue;
    const uint32_t d = two ? new_value(Width::narrow) : dest(to, type);
    emit("lop3." + bit_name(type), d, source(1, type), source(2, type), source(3, type)).imm =
        operand(4).bits & 0xff;
    if (!two) return;
    const uint32_t test = new_value(Width::predicate);
    emit("setp.ne.b32", test, d, immediate(Width::narrow, 0));
    const uint32_t joined = combine(logic, test, false, with);
    emit_copy(dest(to, type), d);
    if (to.second == ptx::kNone) return;
    if (registers_[to.second] != Type::pred) fail("lop3 wants a predicate after '|'");
    emit_copy(to.second, joined);
}

void Selector::pick_permute() {
    const auto mode = take_one({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
    const Type type = take_type();
    all_taken();
    expect_operands(4, 4);
    emit("prmt." + (mode.empty() ? "" : std::string(mode) + ".") + bit_name(type), dest(0, type),
         source(1, type), source(2, type), source(3, Type::u32));
}

// bfe, bfi
void Selector::pick_field() {
    const Type type = take_type();
    all_taken();
    if (now_->opcode == "bfe") {
        expect_operands(4, 4);
        emit("bfe." + std::string(ptx::traits(type).name), dest(0, type), source(1, type),
             source(2, Type::u32), source(3, Type::u32));
        return;
    }
    expect_operands(5, 5);
    emit("bfi." + bit_name(type), dest(0, type), source(1, type), source(2, type), source(3, Type::u32),
         source(4, Type::u32));
}

// popc, clz, brev, bfind
void Selector::pick_count() {
    const Type type = take_type();
    const bool shift = take("shiftamt");
    all_taken();
    expect_operands(2, 2);
    const std::string name(now_->opcode);
    const Type result = name == "brev" ? type : Type::u32;
    const std::string tail = name == "bfind" ? std::string(ptx::traits(type).name) : bit_name(type);
    emit(name + (shift ? ".shiftamt." : ".") + tail, dest(0, result), source(1, type));
}

// dp4a, dp2a
void Selector::pick_dot() {
    const Type b = take_type(), a = take_type();
    const auto half = take_one({"lo", "hi"});
    all_taken();
    expect_operands(4, 4);
    emit(std::string(now_->opcode) + "." + (half.empty() ? "" : std::string(half) + ".") +
             std::string(ptx::traits(a).name) + "." + std::string(ptx::traits(b).name),
         dest(0, Type::b32), source(1, Type::b32), source(2, Type::b32), source(3, Type::b32));
}

void Selector::pick_sad() {
    const Type type = take_type();
    all_taken();
    expect_operands(4, 4);
    emit("sad." + std::string(ptx::traits(type).name), dest(0, type), source(1, type), source(2, type),
         source(3, type));
}

// rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh
void Selector::pick_function() {
    const Type type = take_type();
    take("approx");
    const std::string name = std::string(now_->opcode) + float_tail(type);
    all_taken();
    expect_operands(2, 2);
    if (type == Type::f16x2 || type == Type::bf16x2) {  // each half by itself
        const uint32_t from = source(1, type);
        uint32_t halves[2];
        for (int i = 0; i < 2; ++i) {
            const uint32_t half = new_value(Width::narrow);
            halves[i] = new_value(Width::narrow);
            emit("part" + std::to_string(i) + ".b32.b16", half, from);
            emit(name.substr(0, name.size() - 2), halves[i], half);
        }
        emit("pack.b32.b16", dest(0, type), halves[0], halves[1]);
        return;
    }
    emit(name, dest(0, type), source(1, type));
}

void Selector::pick_copysign() {
    const Type type = take_type();
    integer3("copysign." + std::string(ptx::traits(type).name), type);
}

// bmsk, szext
void Selector::pick_mask() {
    const Type type = take_type();
    const auto mode = take_one({"clamp", "wrap"});
    integer3(std::string(now_->opcode) + "." + std::string(mode) + "." + std::string(ptx::traits(type).name),
             type);
}

}  // namespace softgpu::lower
