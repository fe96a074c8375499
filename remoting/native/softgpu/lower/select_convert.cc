// Comparisons, selections, moves and conversions.
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

void Selector::pick_setp() {
    const Type type = take_type();
    const auto logic = take_one({"and", "or", "xor"});
    expect_operands(logic.empty() ? 3 : 4, logic.empty() ? 3 : 4);
    const uint32_t with = logic.empty() ? kNoValue : predicate_source(operand(3));
    const uint32_t test = compare(type, source(1, type), source(2, type));
    all_taken();
    const ptx::Operand& to = operand(0);
    if (to.kind == ptx::OperandKind::pair) {
        const uint32_t second = to.second;
        if (second != ptx::kNone && source_.registers[second] != Type::pred) fail("setp wants predicates");
        const uint32_t opposite = combine(logic, test, true, with);
        const uint32_t first = combine(logic, test, false, with);
        if (to.reg != ptx::kNone) {
            if (source_.registers[to.reg] != Type::pred) fail("setp wants predicates");
            emit_copy(to.reg, first);
        }
        if (second != ptx::kNone) emit_copy(second, opposite);
        return;
    }
    emit_copy(dest(to, Type::pred), combine(logic, test, false, with));
}

void Selector::pick_set() {
    const Type type = take_type(), result = take_type();
    const auto logic = take_one({"and", "or", "xor"});
    expect_operands(logic.empty() ? 3 : 4, logic.empty() ? 3 : 4);
    const uint32_t with = logic.empty() ? kNoValue : predicate_source(operand(3));
    const uint32_t test = combine(logic, compare(type, source(1, type), source(2, type)), false, with);
    all_taken();
    uint64_t yes = ~0u;
    if (result == Type::f32)
        yes = 0x3f800000u;
    else if (result == Type::f16)
        yes = 0x3c00u;
    else if (result == Type::bf16)
        yes = 0x3f80u;
    else if (ptx::traits(result).bytes == 2)
        yes = 0xffffu;
    else if (ptx::traits(result).bytes != 4)
        unknown();
    emit("selp.b32", dest(0, result), immediate(Width::narrow, yes), immediate(Width::narrow, 0), test);
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

void Selector::pick_mov() {
    const Type type = take_type();
    all_taken();
    expect_operands(2, 2);
    if (operand(0).kind == ptx::OperandKind::vector) return unpack(operand(0), type);
    if (operand(1).kind == ptx::OperandKind::vector) return pack(operand(1), type);
    emit_copy(dest(0, type), source(1, type));
}

void Selector::pick_cvta() {
    const Type type = take_type();
    const bool to_space = take("to");
    const auto space =
        take_one({"global", "const", "shared", "shared::cta", "local", "param", "param::entry"});
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
    const auto space =
        take_one({"global", "const", "shared", "shared::cta", "local", "param", "param::entry"});
    all_taken();
    expect_operands(2, 2);
    if (space.empty()) unknown();
    emit("isspacep." + std::string(space.substr(0, space.find(':'))), dest(0, Type::pred),
         source(1, Type::b64));
}

void Selector::convert_to_float(Type to, Type from, const std::string& round) {
    const bool ftz = take("ftz"), sat = take("sat"), relu = take("relu");
    all_taken();
    const bool flushes = ftz && (from == Type::f32 || to == Type::f32) && from != Type::f16 &&
                         to != Type::f16 && from != Type::bf16 && to != Type::bf16 && is_float(from);
    const std::string name = "cvt" + round + (flushes ? ".ftz" : "") + (sat ? ".sat" : "") +
                             (relu ? ".relu" : "") + "." + std::string(ptx::traits(to).name) + "." +
                             std::string(ptx::traits(from).name);
    if (to == Type::f16x2 || to == Type::bf16x2) {
        expect_operands(3, 3);
        emit(name, dest(0, to), source(1, from), source(2, from));
        return;
    }
    expect_operands(2, 2);
    emit(name, dest(0, to), source(1, from, true));
}

void Selector::pick_cvt() {
    const Type from = take_type(), to = take_type();
    const auto mode = take_one({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"});
    const std::string round = mode.empty() ? "" : "." + std::string(mode);
    const std::string from_name(ptx::traits(from).name), to_name(ptx::traits(to).name);
    if (is_float(to)) return convert_to_float(to, from, round);
    if (is_float(from)) {
        const bool flushes = take("ftz") && from == Type::f32;
        take("sat");  // integers saturate anyway
        all_taken();
        expect_operands(2, 2);
        emit("cvt" + round + (flushes ? ".ftz" : "") + "." + to_name + "." + from_name, dest(0, to, true),
             source(1, from, true));
        return;
    }
    const bool sat = take("sat");
    all_taken();
    expect_operands(2, 2);
    const unsigned bytes = ptx::traits(to).bytes;
    const uint32_t a = source(1, from, true), d = dest(0, to, true);
    if (!sat && bytes >= 4 && bytes == ptx::traits(from).bytes) return emit_copy(d, a);
    // The b types have no cvt; everything else has a handler by its signs.
    emit(std::string("cvt") + (sat ? ".sat" : "") + "." + to_name + "." + from_name, d, a);
}

}  // namespace softgpu::lower
