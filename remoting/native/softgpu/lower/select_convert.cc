// cvt where it is more than its operands.
#include "exec/rare/narrow.h"
#include "lower/select.h"

namespace softgpu::lower {

// The modifiers as the handlers of `cvt.any` read them.
uint64_t Selector::narrowing() const {
    using namespace narrowing;
    static constexpr uint64_t kModes[] = {
        kNearest,          kZero,          kDown, kUp, kAway, kNearest | kIntegral, kZero | kIntegral,
        kDown | kIntegral, kUp | kIntegral};
    uint64_t told = 0;
    if (const auto mode = which({"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"}))
        told = kModes[*mode];
    if (has("sat")) told |= kSaturate;
    if (has("relu")) told |= kRelu;
    if (has("satfinite")) told |= kFinite;
    if (has("ftz")) told |= kFlush;
    return told;
}

// Between integers of one size nothing changes.
void Selector::pick_convert_integer() {
    const Type from = type_from_end(), to = type_from_end(1);
    expect_operands(2, 2);
    const uint32_t a = source(1, from, true), d = dest(0, to, true);
    const unsigned bytes = ptx::traits(to).bytes;
    if (!has("sat") && bytes >= 4 && bytes == ptx::traits(from).bytes) return emit_copy(d, a);
    emit(code(), d, a);
}

// The form's handler does not clamp to [0, 1]: another does it then.
void Selector::pick_convert_clamped() {
    const Type from = type_from_end(), to = type_from_end(1);
    expect_operands(2, 2);
    const uint32_t unclamped = new_value(width_of(to));
    emit(code(), unclamped, source(1, from, true));
    emit(to == Type::f32 ? "cvt.sat.f32.f32"_op : "cvt.sat.f64.f64"_op, dest(0, to), unclamped);
}

// To and from 16 bits, pairs, tf32 and the 8-bit floats, which are always in pairs.
void Selector::pick_convert_any() {
    const std::string_view from = now_->mods.back(), to = now_->mods[now_->mods.size() - 2];
    // Of the formats that only cvt knows, the register's type.
    auto held = [](std::string_view name) {
        if (name == "tf32" || name.ends_with("f16x2")) return Type::b32;
        const Type type = ptx::type_named(name);
        return type == Type::none ? Type::b16 : type;
    };
    const bool two = from == "f32" && to != "tf32" && to.ends_with("x2");
    expect_operands(two ? 3 : 2, two ? 3 : 2);
    const bool pairs = to.ends_with("x2") || from.ends_with("x2");
    const uint32_t a = source(1, held(from), !pairs), b = two ? source(2, held(from)) : kNoValue;
    emit(code(), dest(0, held(to)), a, b).imm = narrowing();
}

}  // namespace softgpu::lower
