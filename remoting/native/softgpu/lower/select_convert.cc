// cvt, in all its pairs of types.
#include <algorithm>

#include "exec/handlers.h"
#include "exec/rare/narrow.h"
#include "lower/select.h"

namespace softgpu::lower {
namespace {

bool is_small(ptx::Type type) {
    return type == ptx::Type::f16 || type == ptx::Type::bf16;
}

// Formats that only cvt knows, and pairs.
bool is_unusual(std::string_view name) {
    constexpr std::string_view kNames[] = {"tf32", "f16x2", "bf16x2", "e4m3x2", "e5m2x2"};
    return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

// The modifiers that are left, as the handlers of `cvt.any` read them.
uint64_t Selector::narrowing() {
    using namespace narrowing;
    uint64_t told = 0;
    const auto mode = take_one({"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"});
    if (mode == "rna")
        told = kAway;
    else if (!mode.empty())
        told = mode[1] == 'z' ? kZero : mode[1] == 'm' ? kDown : mode[1] == 'p' ? kUp : kNearest;
    if (mode.size() == 3 && mode != "rna") told |= kIntegral;
    if (take("sat")) told |= kSaturate;
    if (take("relu")) told |= kRelu;
    if (take("satfinite")) told |= kFinite;
    if (take("ftz")) told |= kFlush;
    all_taken();
    return told;
}

// To and from pairs, tf32 and the 8-bit floats, which are always in pairs.
void Selector::convert_to_pair(std::string_view to, std::string_view from) {
    const bool pair_of_halves = to == "f16x2" || to == "bf16x2";
    const Type result = pair_of_halves || to == "tf32" ? Type::b32 : Type::b16;
    const uint64_t told = narrowing();
    const std::string names = std::string(to) + "." + std::string(from);
    if (from == "f32" && to != "tf32") {
        expect_operands(3, 3);
        const bool usual = pair_of_halves && told == narrowing::kNearest;
        emit((usual ? "cvt.rn." : "cvt.any.") + names, dest(0, result), source(1, Type::f32),
             source(2, Type::f32))
            .imm = told;
        return;
    }
    expect_operands(2, 2);
    const Type source_type = from == "f32" ? Type::f32 : from == "f16x2" ? Type::b32 : Type::b16;
    emit("cvt.any." + names, dest(0, result), source(1, source_type)).imm = told;
}

// cvt.pack.sat.to.s32{.b32} d, a, b{, c}
void Selector::convert_pack() {
    if (!take("sat")) unknown();
    const bool merges = modifiers_.size() == 3 && modifiers_.back() == "b32";
    if (merges) modifiers_.pop_back();
    if (!take("s32")) unknown();
    const std::string to(take_last());
    all_taken();
    expect_operands(merges ? 4 : 3, merges ? 4 : 3);
    emit("cvt.pack." + to, dest(0, Type::b32), source(1, Type::s32), source(2, Type::s32),
         merges ? source(3, Type::b32) : kNoValue);
}

void Selector::convert_to_float(Type to, Type from, const std::string& round) {
    const auto given = modifiers_;
    const bool ftz = take("ftz"), sat = take("sat"), relu = take("relu"), finite = take("satfinite");
    all_taken();
    expect_operands(2, 2);
    // A half is exact in f32 and f64, so that the rounding says nothing.
    const bool exact = is_small(from) && !is_small(to);
    const bool flushes =
        ftz && is_float(from) && !is_small(from) && !is_small(to) && (from == Type::f32 || to == Type::f32);
    const std::string types =
        "." + std::string(ptx::traits(to).name) + "." + std::string(ptx::traits(from).name);
    const std::string name = "cvt" + (exact ? "" : round) + (flushes ? ".ftz" : "") + (sat ? ".sat" : "") +
                             (relu ? ".relu" : "") + types;
    // By way of f32 an integer of 32 bits or more would be rounded twice.
    const bool twice = to == Type::bf16 && !is_float(from) && ptx::traits(from).bytes >= 4;
    if (!is_small(to) && sat && find_handler(name) == nullptr) {
        const uint32_t unclamped = new_value(width_of(to));
        emit("cvt" + (exact ? "" : round) + types, unclamped, source(1, from, true));
        const std::string typed(ptx::traits(to).name);
        emit("cvt.sat." + typed + "." + typed, dest(0, to), unclamped);
    } else if (!is_small(to) || (!twice && !finite && !ftz && find_handler(name) != nullptr)) {
        emit(name, dest(0, to), source(1, from, true));
    } else {
        modifiers_ = given;
        if (!round.empty()) modifiers_.push_back(std::string_view(round).substr(1));
        const uint64_t told = narrowing();
        emit("cvt.any" + types, dest(0, to), source(1, from, true)).imm = told;
    }
}

void Selector::pick_cvt() {
    if (take("pack")) return convert_pack();
    const size_t count = modifiers_.size();
    if (count >= 2 && (is_unusual(modifiers_[count - 1]) || is_unusual(modifiers_[count - 2]))) {
        const auto from = take_last(), to = take_last();
        return convert_to_pair(to, from);
    }
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
