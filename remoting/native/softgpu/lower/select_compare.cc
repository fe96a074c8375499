// Comparisons, selections and moves.
#include <algorithm>

#include "lower/select.h"

namespace softgpu::lower {
namespace {

bool is_comparison(std::string_view name) {
    static constexpr std::string_view kNames[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",
                                                  "lo",  "ls",  "hi",  "hs",  "equ", "neu",
                                                  "ltu", "leu", "gtu", "geu", "num", "nan"};
    return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

// The comparison that the first modifier names, as a fresh predicate.
uint32_t Selector::compare(Type type, uint32_t a, uint32_t b) {
    std::string name(modifiers_.empty() ? "" : modifiers_.front());
    if (!is_comparison(name)) unknown();
    modifiers_.erase(modifiers_.begin());
    const bool ftz = take("ftz");
    std::string tail(ptx::traits(type).name);
    if (is_float(type)) {
        if (ftz && type == Type::f32) tail = "ftz.f32";
    } else {
        if (name == "lo") name = "lt";
        if (name == "ls") name = "le";
        if (name == "hi") name = "gt";
        if (name == "hs") name = "ge";
        if (name == "eq" || name == "ne")
            tail = bit_name(type);
        else if (!is_signed(type))
            tail[0] = 'u';
    }
    const uint32_t test = new_value(Width::predicate);
    emit("setp." + name + "." + tail, test, a, b);
    return test;
}

// test, or its opposite, joined to a third predicate by and, or, xor.
uint32_t Selector::combine(std::string_view logic, uint32_t test, bool inverted, uint32_t with) {
    if (inverted) {
        const uint32_t opposite = new_value(Width::predicate);
        emit("not.pred", opposite, test);
        test = opposite;
    }
    if (logic.empty()) return test;
    const uint32_t joined = new_value(Width::predicate);
    emit(std::string(logic) + ".pred", joined, test, with);
    return joined;
}

// The comparisons of both halves of a pair, the lower first, each joined to a third predicate.
void Selector::compare_pairs(std::string_view logic, Type type, uint32_t (&tests)[2]) {
    const Type half = type == Type::f16x2 ? Type::f16 : Type::bf16;
    const uint32_t with = logic.empty() ? kNoValue : predicate_source(operand(3));
    const uint32_t a = source(1, type), b = source(2, type);
    const auto modifiers = modifiers_;
    for (int i = 0; i < 2; ++i) {
        modifiers_ = modifiers;
        const uint32_t x = new_value(Width::narrow), y = new_value(Width::narrow);
        emit("part" + std::to_string(i) + ".b32.b16", x, a);
        emit("part" + std::to_string(i) + ".b32.b16", y, b);
        tests[i] = combine(logic, compare(half, x, y), false, with);
    }
    all_taken();
}

void Selector::pick_setp() {
    const Type type = take_type();
    const auto logic = take_one({"and", "or", "xor"});
    expect_operands(logic.empty() ? 3 : 4, logic.empty() ? 3 : 4);
    const ptx::Operand& to = operand(0);
    const bool two = to.kind == ptx::OperandKind::pair;
    const uint32_t second = two ? to.second : ptx::kNone, first = two ? to.reg : ptx::kNone;
    for (const uint32_t reg : {first, second}) {
        if (reg != ptx::kNone && registers_[reg] != Type::pred) fail("setp wants predicates");
    }
    uint32_t tests[2];
    if (type == Type::f16x2 || type == Type::bf16x2) {
        if (!two) fail(full_name() + " wants two predicates");
        compare_pairs(logic, type, tests);
    } else {
        const uint32_t with = logic.empty() ? kNoValue : predicate_source(operand(3));
        const uint32_t test = compare(type, source(1, type), source(2, type));
        all_taken();
        if (!two) return emit_copy(dest(to, Type::pred), combine(logic, test, false, with));
        tests[1] = combine(logic, test, true, with);
        tests[0] = combine(logic, test, false, with);
    }
    if (first != ptx::kNone) emit_copy(first, tests[0]);
    if (second != ptx::kNone) emit_copy(second, tests[1]);
}

void Selector::pick_set() {
    const Type type = take_type(), result = take_type();
    const auto logic = take_one({"and", "or", "xor"});
    expect_operands(logic.empty() ? 3 : 4, logic.empty() ? 3 : 4);
    const bool pair = type == Type::f16x2 || type == Type::bf16x2;
    uint64_t yes = ~0u;
    if (result == Type::f32)
        yes = 0x3f800000u;
    else if (result == Type::f16 || result == Type::f16x2)
        yes = 0x3c00u;
    else if (result == Type::bf16 || result == Type::bf16x2)
        yes = 0x3f80u;
    else if (ptx::traits(result).bytes == 2 || pair)
        yes = 0xffffu;
    else if (ptx::traits(result).bytes != 4)
        unknown();
    const uint32_t one = immediate(Width::narrow, yes), zero = immediate(Width::narrow, 0);
    if (pair) {
        uint32_t tests[2], halves[2];
        compare_pairs(logic, type, tests);
        for (int i = 0; i < 2; ++i) {
            halves[i] = new_value(Width::narrow);
            emit("selp.b32", halves[i], one, zero, tests[i]);
        }
        emit("pack.b32.b16", dest(0, Type::b32), halves[0], halves[1]);
        return;
    }
    const uint32_t with = logic.empty() ? kNoValue : predicate_source(operand(3));
    const uint32_t test = combine(logic, compare(type, source(1, type), source(2, type)), false, with);
    all_taken();
    emit("selp.b32", dest(0, result), one, zero, test);
}

void Selector::pick_selp() {
    const Type type = take_type();
    all_taken();
    expect_operands(4, 4);
    emit(width_of(type) == Width::wide ? "selp.b64" : "selp.b32", dest(0, type), source(1, type),
         source(2, type), predicate_source(operand(3)));
}

void Selector::pick_slct() {
    const Type selector = take_type(), type = take_type();
    const bool ftz = take("ftz");
    all_taken();
    expect_operands(4, 4);
    const std::string width = width_of(type) == Width::wide ? "b64." : "b32.";
    emit("slct." + std::string(ftz ? "ftz." : "") + width + std::string(ptx::traits(selector).name),
         dest(0, type), source(1, type), source(2, type), source(3, selector));
}

void Selector::pick_testp() {
    const Type type = take_type();
    const auto property = take_one({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
    all_taken();
    expect_operands(2, 2);
    emit("testp." + std::string(property) + "." + std::string(ptx::traits(type).name), dest(0, Type::pred),
         source(1, type));
}

// mov.b64 {lo, hi}, d
void Selector::unpack(const ptx::Operand& to, Type type) {
    const unsigned bytes = ptx::traits(type).bytes / unsigned(to.parts.size());
    const Type part = bytes == 4 ? Type::b32 : bytes == 2 ? Type::b16 : Type::b8;
    const uint32_t from = source(1, type);
    for (size_t i = 0; i < to.parts.size(); ++i) {
        if (to.parts[i].kind == ptx::OperandKind::sink) continue;
        // Through a value of its own: a part may go where the source is.
        const uint32_t piece = new_value(Width::narrow);
        emit("part" + std::to_string(i) + "." + bit_name(type) + "." + bit_name(part), piece, from);
        emit_copy(dest(to.parts[i], part, true), piece);
    }
}

void Selector::pack(const ptx::Operand& from, Type type) {
    const unsigned bytes = ptx::traits(type).bytes / unsigned(from.parts.size());
    const Type part = bytes == 4 ? Type::b32 : bytes == 2 ? Type::b16 : Type::b8;
    uint32_t parts[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
    if (from.parts.size() > 4) unknown();
    for (size_t i = 0; i < from.parts.size(); ++i) parts[i] = source(from.parts[i], part, true);
    emit("pack." + bit_name(type) + "." + bit_name(part), dest(0, type), parts[0], parts[1], parts[2],
         parts[3]);
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
    const Type type = take_type();
    all_taken();
    expect_operands(2, 2);
    if (type == Type::b128) return move_wide();
    if (operand(0).kind == ptx::OperandKind::vector) return unpack(operand(0), type);
    if (operand(1).kind == ptx::OperandKind::vector) return pack(operand(1), type);
    emit_copy(dest(0, type), source(1, type));
}

void Selector::pick_cvta() {
    const Type type = take_type();
    const bool to_space = take("to");
    const auto space = take_one(
        {"global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"});
    all_taken();
    expect_operands(2, 2);
    if (space.empty() || ptx::traits(type).bytes != 8) unknown();
    const uint32_t from = source(1, type), to = dest(0, type);
    const bool shared = space.substr(0, 6) == "shared";
    if (!shared && space != "local") return emit_copy(to, from);  // the address is the same in both
    const uint64_t window = shared ? Windows::shared : Windows::local;
    emit("add.b64", to, from, immediate(Width::wide, to_space ? 0 - window : window));
}

void Selector::pick_isspacep() {
    const auto space = take_one(
        {"global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"});
    all_taken();
    expect_operands(2, 2);
    if (space.empty()) unknown();
    emit("isspacep." + std::string(space.substr(0, space.find(':'))), dest(0, Type::pred),
         source(1, Type::b64));
}

}  // namespace softgpu::lower
