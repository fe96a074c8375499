#include "machine_code/select.h"

namespace softgpu::machine_code {
namespace {

enum class Kind : uint8_t {
    move,
    two,
    three,    // fma
    product,  // mad.lo: two, then a sum
    shift,    // shifts by what is known
    widened,  // mul.wide, and mad.wide with a sum
    widened_sum,
    scaled,    // shl.add.K
    indexed,   // index.K
    extended,  // cvt to 64 bits
    cut,       // cvt to 32 bits
    compare,
    choose,
    invert,
    predicate,
};

struct Recipe {
    Kind kind;
    Form form;
    bool wide = false;
    bool is_float = false;
    uint8_t number = 0;  // extension, comparison, scale or sign
};

constexpr Form kAdd32{1, 1, false, 0xfe}, kAdd64{1, 1, true, 0xd4}, kSub32{1, 1, false, 0xfa},
    kSub64{1, 1, true, 0xfb}, kMul32{1, 2, false, 0x40}, kMul64{1, 2, true, 0x40}, kAnd32{1, 1, false, 0xdb},
    kAnd64{1, 1, true, 0xdb}, kOr32{1, 1, false, 0xeb}, kOr64{1, 1, true, 0xeb}, kXor32{1, 1, false, 0xef},
    kXor64{1, 1, true, 0xef}, kShift32{1, 1, false, 0x72}, kShift64{1, 1, true, 0x73},
    kShiftSigned64{1, 1, true, 0x72}, kMulSigned{1, 2, true, 0x28}, kMulUnsigned{1, 1, true, 0xf4},
    kMove{0, 1, false, 0x28}, kCompare32{1, 3, false, 0x1f}, kCompareUnsigned32{1, 3, false, 0x1e},
    kCompare64{1, 3, true, 0x1f}, kCompareUnsigned64{1, 3, true, 0x1e}, kCompareFloat{0, 1, false, 0xc2},
    kBlend32{1, 2, false, 0x64}, kBlend64{1, 2, true, 0x64}, kTernary{1, 3, false, 0x25},
    kAddFloat{0, 1, false, 0x58}, kMulFloat{0, 1, false, 0x59}, kSubFloat{0, 1, false, 0x5c},
    kDivFloat{0, 1, false, 0x5e}, kFma{1, 2, false, 0xb8}, kCut{2, 2, false, 0x35},
    kMinSigned32{1, 2, false, 0x39}, kMaxSigned32{1, 2, false, 0x3d}, kMin32{1, 2, false, 0x3b},
    kMax32{1, 2, false, 0x3f}, kNone{0, 0, false, 0}, kInsertHalf{1, 3, true, 0x3a};
constexpr Form kUnpack16{0, 1, false, 0x4b}, kUnpack8{1, 1, false, 0x4b}, kStoreMask{1, 1, true, 0x91},
    kLoadMask{1, 1, true, 0x90}, kShiftMask{1, 3, false, 0x31};

#define COMPARISONS(SIGNED, UNSIGNED, WIDTH, WIDE)                            \
    {"setp.eq.b" WIDTH ""_op, {Kind::compare, SIGNED, WIDE, false, 0}},       \
        {"setp.ne.b" WIDTH ""_op, {Kind::compare, SIGNED, WIDE, false, 4}},   \
        {"setp.lt.s" WIDTH ""_op, {Kind::compare, SIGNED, WIDE, false, 1}},   \
        {"setp.le.s" WIDTH ""_op, {Kind::compare, SIGNED, WIDE, false, 2}},   \
        {"setp.ge.s" WIDTH ""_op, {Kind::compare, SIGNED, WIDE, false, 5}},   \
        {"setp.gt.s" WIDTH ""_op, {Kind::compare, SIGNED, WIDE, false, 6}},   \
        {"setp.lt.u" WIDTH ""_op, {Kind::compare, UNSIGNED, WIDE, false, 1}}, \
        {"setp.le.u" WIDTH ""_op, {Kind::compare, UNSIGNED, WIDE, false, 2}}, \
        {"setp.ge.u" WIDTH ""_op, {Kind::compare, UNSIGNED, WIDE, false, 5}}, \
        {"setp.gt.u" WIDTH ""_op, {Kind::compare, UNSIGNED, WIDE, false, 6}},
#define FLOAT_COMPARISON(NAME, NUMBER) \
    {"setp." NAME ".f32"_op, {Kind::compare, kCompareFloat, false, true, NUMBER}},
#define SCALES(K)                                                 \
    {"shl.add." #K ""_op, {Kind::scaled, kNone, true, false, K}}, \
        {"index." #K ""_op, {Kind::indexed, kNone, true, false, K}},

constexpr std::pair<Code, Recipe> kRecipes[] = {
    {"mov.b32"_op, {Kind::move, kMove, false}},
    {"mov.b64"_op, {Kind::move, kMove, true}},
    {"add.b32"_op, {Kind::two, kAdd32}},
    {"add.b64"_op, {Kind::two, kAdd64, true}},
    {"sub.b32"_op, {Kind::two, kSub32}},
    {"sub.b64"_op, {Kind::two, kSub64, true}},
    {"mul.lo.b32"_op, {Kind::two, kMul32}},
    {"mul.lo.b64"_op, {Kind::two, kMul64, true}},
    {"and.b32"_op, {Kind::two, kAnd32}},
    {"and.b64"_op, {Kind::two, kAnd64, true}},
    {"or.b32"_op, {Kind::two, kOr32}},
    {"or.b64"_op, {Kind::two, kOr64, true}},
    {"xor.b32"_op, {Kind::two, kXor32}},
    {"xor.b64"_op, {Kind::two, kXor64, true}},
    {"min.s32"_op, {Kind::two, kMinSigned32}},
    {"max.s32"_op, {Kind::two, kMaxSigned32}},
    {"min.u32"_op, {Kind::two, kMin32}},
    {"max.u32"_op, {Kind::two, kMax32}},
    {"not.b32"_op, {Kind::invert, kTernary}},
    {"not.b64"_op, {Kind::invert, kTernary, true}},
    {"mad.lo.b32"_op, {Kind::product, kMul32}},
    {"mad.lo.b64"_op, {Kind::product, kMul64, true}},
    {"shl.b32"_op, {Kind::shift, kShift32, false, false, 6}},
    {"shr.u32"_op, {Kind::shift, kShift32, false, false, 2}},
    {"shr.s32"_op, {Kind::shift, kShift32, false, false, 4}},
    {"shl.b64"_op, {Kind::shift, kShift64, true, false, 6}},
    {"shr.u64"_op, {Kind::shift, kShift64, true, false, 2}},
    {"shr.s64"_op, {Kind::shift, kShiftSigned64, true, false, 4}},
    {"mul.wide.s32"_op, {Kind::widened, kMulSigned, true, false, 1}},
    {"mul.wide.u32"_op, {Kind::widened, kMulUnsigned, true, false, 0}},
    {"mad.wide.s32"_op, {Kind::widened_sum, kMulSigned, true, false, 1}},
    {"mad.wide.u32"_op, {Kind::widened_sum, kMulUnsigned, true, false, 0}},
    {"cvt.s64.s32"_op, {Kind::extended, kNone, true, false, 1}},
    {"cvt.u64.u32"_op, {Kind::extended, kNone, true, false, 0}},
    {"cvt.u32.u64"_op, {Kind::cut, kCut}},
    {"add.f32"_op, {Kind::two, kAddFloat, false, true}},
    {"sub.f32"_op, {Kind::two, kSubFloat, false, true}},
    {"mul.f32"_op, {Kind::two, kMulFloat, false, true}},
    {"div.f32"_op, {Kind::two, kDivFloat, false, true}},
    {"fma.f32"_op, {Kind::three, kFma, false, true}},
    {"selp.b32"_op, {Kind::choose, kBlend32}},
    {"selp.b64"_op, {Kind::choose, kBlend64, true}},
    {"mov.pred"_op, {Kind::predicate, kNone, false, false, 0}},
    {"not.pred"_op, {Kind::predicate, kNone, false, false, 1}},
    {"and.pred"_op, {Kind::predicate, kNone, false, false, 2}},
    {"or.pred"_op, {Kind::predicate, kNone, false, false, 3}},
    {"xor.pred"_op, {Kind::predicate, kNone, false, false, 4}},
    SCALES(0) SCALES(1) SCALES(2) SCALES(3) SCALES(4) COMPARISONS(kCompare32, kCompareUnsigned32, "32", false)
        COMPARISONS(kCompare64, kCompareUnsigned64, "64", true) FLOAT_COMPARISON("eq", 0x00)
            FLOAT_COMPARISON("lt", 0x11) FLOAT_COMPARISON("le", 0x12) FLOAT_COMPARISON("ne", 0x0c)
                FLOAT_COMPARISON("gt", 0x1e) FLOAT_COMPARISON("ge", 0x1d) FLOAT_COMPARISON("equ", 0x08)
                    FLOAT_COMPARISON("neu", 0x04) FLOAT_COMPARISON("ltu", 0x19) FLOAT_COMPARISON("leu", 0x1a)
                        FLOAT_COMPARISON("gtu", 0x16) FLOAT_COMPARISON("geu", 0x15)
                            FLOAT_COMPARISON("num", 0x07) FLOAT_COMPARISON("nan", 0x03)};

const Recipe* recipe(Code code) {
    static const std::unordered_map<Code, Recipe> all(std::begin(kRecipes), std::end(kRecipes));
    const auto found = all.find(code);
    return found == all.end() ? nullptr : &found->second;
}

int parts(const Recipe& recipe) {
    return recipe.wide ? 4 : 2;
}

void move(const Recipe& recipe, const Op& op, Run& run) {
    const auto from = run.in_registers(op.a, recipe.wide, kTemporary);
    const auto to = run.fresh(recipe.wide);
    for (size_t i = 0; i < size_t(parts(recipe)); ++i) run.as.vector(kMove, to[i], 0, from[i]);
    run.bind(op.d, recipe.wide, to);
}

void two(const Recipe& recipe, const Op& op, Run& run) {
    const auto a = run.in_registers(op.a, recipe.wide, kTemporary, recipe.is_float);
    const Operand b = run.source(op.b, recipe.wide, recipe.is_float);
    const auto to = run.fresh(recipe.wide);
    for (size_t i = 0; i < size_t(parts(recipe)); ++i) run.as.vector(recipe.form, to[i], a[i], b.part[i]);
    run.bind(op.d, recipe.wide, to, recipe.is_float);
}

void three(const Recipe& recipe, const Op& op, Run& run) {
    const auto a = run.in_registers(op.a, false, kTemporary, true);
    const Operand b = run.source(op.b, false, true);
    const auto c = run.in_registers(op.c, false, kTemporary + 1, true);
    const auto to = run.fresh(false);
    for (size_t i = 0; i < 2; ++i) {
        run.as.vector(kMove, to[i], 0, c[i]);
        run.as.vector(recipe.form, to[i], a[i], b.part[i]);
    }
    run.bind(op.d, false, to, true);
}

void product(const Recipe& recipe, const Op& op, Run& run) {
    const auto a = run.in_registers(op.a, recipe.wide, kTemporary);
    const Operand b = run.source(op.b, recipe.wide), c = run.source(op.c, recipe.wide);
    const auto to = run.fresh(recipe.wide);
    for (size_t i = 0; i < size_t(parts(recipe)); ++i) {
        run.as.vector(recipe.form, to[i], a[i], b.part[i]);
        run.as.vector(recipe.wide ? kAdd64 : kAdd32, to[i], to[i], c.part[i]);
    }
    run.bind(op.d, recipe.wide, to);
}

void shift(const Recipe& recipe, const Op& op, Run& run) {
    const uint64_t by = *run.known(op.b) & UINT32_MAX;
    const auto a = run.in_registers(op.a, recipe.wide, kTemporary);
    const auto to = run.fresh(recipe.wide);
    for (size_t i = 0; i < size_t(parts(recipe)); ++i)
        run.as.vector(recipe.form, recipe.number, to[i], a[i], 0, 2, uint8_t(by > 255 ? 255 : by));
    run.bind(op.d, recipe.wide, to);
}

void widened(const Recipe& recipe, const Op& op, Run& run, bool sum) {
    const bool is_signed = recipe.number != 0;
    Operand c;
    if (sum) c = run.source(op.c, true);
    // What is extended is loaded before registers are given out.
    if (!run.is_uniform(op.a)) run.source(op.a, false);
    if (!run.is_uniform(op.b)) run.source(op.b, false);
    const auto to = run.fresh(true);
    for (size_t i = 0; i < 4; ++i) {
        run.expand(op.a, int(i), is_signed, kTemporary);
        run.expand(op.b, int(i), is_signed, kTemporary + 1);
        run.as.vector(recipe.form, to[i], kTemporary, Source(uint8_t(kTemporary + 1)));
        if (sum) run.as.vector(kAdd64, to[i], to[i], c.part[i]);
    }
    run.bind(op.d, true, to);
}

void scaled(const Recipe& recipe, const Op& op, Run& run) {
    const auto a = run.in_registers(op.a, true, kTemporary);
    const Operand b = run.source(op.b, true);
    const auto to = run.fresh(true);
    for (size_t i = 0; i < 4; ++i) {
        run.as.vector(kShift64, 6, to[i], a[i], 0, 2, recipe.number);
        run.as.vector(kAdd64, to[i], to[i], b.part[i]);
    }
    run.bind(op.d, true, to);
}

// ((a + (a < 0 ? b : 0)) << K) + c
void indexed(const Recipe& recipe, const Op& op, Run& run) {
    const auto a = run.in_registers(op.a, true, kTemporary);
    const Operand b = run.source(op.b, true), c = run.source(op.c, true);
    const auto to = run.fresh(true);
    for (size_t i = 0; i < 4; ++i) {
        run.as.vector(kShiftSigned64, 4, to[i], a[i], 0, 2, 63);
        run.as.vector(kAnd64, to[i], to[i], b.part[i]);
        run.as.vector(kAdd64, to[i], to[i], a[i]);
        run.as.vector(kShift64, 6, to[i], to[i], 0, 2, recipe.number);
        run.as.vector(kAdd64, to[i], to[i], c.part[i]);
    }
    run.bind(op.d, true, to);
}

void extended(const Recipe& recipe, const Op& op, Run& run) {
    if (!run.is_uniform(op.a)) run.source(op.a, false);
    const auto to = run.fresh(true);
    for (size_t i = 0; i < 4; ++i) run.expand(op.a, int(i), recipe.number != 0, to[i]);
    run.bind(op.d, true, to);
}

void cut(const Op& op, Run& run) {
    const auto a = run.in_registers(op.a, true, kTemporary);
    const auto to = run.fresh(false);
    for (size_t i = 0; i < 2; ++i) {
        run.as.vector(kCut, a[2 * i], 0, to[i]);
        run.as.vector(kCut, a[2 * i + 1], 0, uint8_t(kTemporary + 1));
        run.as.vector(kInsertHalf, to[i], to[i], uint8_t(kTemporary + 1), 0, 2, 1);
    }
    run.bind(op.d, false, to);
}

// Masks of 16 or 8 lanes each, to the 32 bits of a predicate.
void compare(const Recipe& recipe, const Op& op, Run& run) {
    const auto a = run.in_registers(op.a, recipe.wide, kTemporary, recipe.is_float);
    const Operand b = run.source(op.b, recipe.wide, recipe.is_float);
    for (size_t i = 0; i < size_t(parts(recipe)); ++i)
        run.as.vector(recipe.form, uint8_t(1 + i), a[i], b.part[i], 0, 2, recipe.number);
    if (recipe.wide) {
        run.as.masks(kUnpack8, true, 1, 2, 1);
        run.as.masks(kUnpack8, true, 3, 4, 3);
        run.as.masks(kUnpack16, true, 1, 3, 1);
    } else {
        run.as.masks(kUnpack16, true, 1, 2, 1);
    }
    run.settle(op.d, sizeof(uint32_t));
    run.as.mask_memory(kStoreMask, 1, Memory{kSlots, int32_t(op.d)});
}

void choose(const Recipe& recipe, const Op& op, Run& run) {
    const Operand yes = run.source(op.a, recipe.wide);
    const auto no = run.in_registers(op.b, recipe.wide, kTemporary);
    const auto to = run.fresh(recipe.wide);
    run.as.mask_memory(kLoadMask, 1, Memory{kSlots, int32_t(op.c)});
    for (size_t i = 0; i < size_t(parts(recipe)); ++i) {
        if (i != 0) {
            run.as.masks(kShiftMask, false, 1, 0, 1);
            run.as.immediate(recipe.wide ? 8 : 16);
        }
        run.as.vector(recipe.form, to[i], no[i], yes.part[i], 1);
    }
    run.bind(op.d, recipe.wide, to);
}

void invert(const Recipe& recipe, const Op& op, Run& run) {
    const auto a = run.in_registers(op.a, recipe.wide, kTemporary);
    const auto to = run.fresh(recipe.wide);
    for (size_t i = 0; i < size_t(parts(recipe)); ++i) run.as.vector(kTernary, to[i], a[i], a[i], 0, 2, 0x55);
    run.bind(op.d, recipe.wide, to);
}

void predicate(const Recipe& recipe, const Op& op, Run& run) {
    run.as.load32(rax, Memory{kSlots, int32_t(op.a)});
    const Memory b{kSlots, int32_t(op.b)};
    if (recipe.number == 1) run.as.invert32(rax);
    if (recipe.number == 2) run.as.both32(rax, b);
    if (recipe.number == 3) run.as.either32(rax, b);
    if (recipe.number == 4) run.as.differ32(rax, b);
    run.settle(op.d, sizeof(uint32_t));
    run.as.store32(Memory{kSlots, int32_t(op.d)}, rax);
}

}  // namespace

bool supports(Code code, const Op& op, const Run& run, const Located& located) {
    if (is_access(code)) return supports_access(code, op, run, located);
    const Recipe* made = recipe(code);
    if (made == nullptr) return false;
    return made->kind != Kind::shift || run.known(op.b).has_value();
}

std::optional<Slots> slots_of(Code code, const Op& op) {
    if (is_access(code)) return slots_of_access(code, op);
    const Recipe* made = recipe(code);
    if (made == nullptr) return std::nullopt;
    using Slot = std::pair<uint32_t, bool>;
    const bool wide = made->wide;
    const Slot a{op.a, wide}, b{op.b, wide}, c{op.c, wide}, d{op.d, wide};
    const Slot narrow_a{op.a, false}, narrow_b{op.b, false};
    switch (made->kind) {
        case Kind::move:
        case Kind::invert:
            return Slots{{a}, d};
        case Kind::two:
        case Kind::scaled:
        case Kind::choose:
            return Slots{{a, b}, d};
        case Kind::three:
        case Kind::product:
        case Kind::indexed:
            return Slots{{a, b, c}, d};
        case Kind::shift:
            return Slots{{a, narrow_b}, d};
        case Kind::widened:
            return Slots{{narrow_a, narrow_b}, d};
        case Kind::widened_sum:
            return Slots{{narrow_a, narrow_b, c}, d};
        case Kind::extended:
            return Slots{{narrow_a}, d};
        case Kind::cut:
            return Slots{{{op.a, true}}, d};
        case Kind::compare:
            return Slots{{a, b}, {}};
        case Kind::predicate:
            return Slots{};
    }
    return std::nullopt;
}

bool is_guardable(Code code) {
    if (is_access(code)) return finds_its_place(code);
    const Recipe* made = recipe(code);
    return made != nullptr &&
           (made->kind == Kind::move || made->kind == Kind::two || made->kind == Kind::three);
}

// All lanes: as without a guard. None: nothing. Some: the handler. What is in registers is the same after
// each.
void emit_guarded(const Op& guard, Code code, const Op& op, Run& run) {
    const Slots slots = *slots_of(code, op);
    run.start_op();
    for (const auto& [slot, wide] : slots.read) {
        if (!run.is_uniform(slot)) run.source(slot, wide);
    }
    if (slots.written) run.source(slots.written->first, slots.written->second);
    run.make_room(8);
    run.tighten_all();
    const std::vector<Value> before = run.values();
    run.as.load32(rax, Memory{kSlots, int32_t(guard.a)});
    if (guard.imm != 0) run.as.invert32(rax);
    run.as.compare32(rax, int8_t(0));
    const size_t none = run.as.jump_if(Condition::equal);
    run.as.compare32(rax, int8_t(-1));
    const size_t some = run.as.jump_if(Condition::not_equal);
    emit(code, op, run, {});
    run.tighten_all();
    if (slots.written) run.put_back(slots.written->first, slots.written->second, before);
    run.as.land(none, run.as.at());
    run.later([&run, &guard, some, before, then = run.values(), resume = run.as.at()] {
        run.as.land(some, run.as.at());
        run.call_handler(&guard, before, then, resume);
    });
}

void emit(Code code, const Op& op, Run& run, const Located& located) {
    run.start_op();
    if (is_access(code)) return emit_access(code, op, run, located);
    const Recipe& made = *recipe(code);
    switch (made.kind) {
        case Kind::move:
            return move(made, op, run);
        case Kind::two:
            return two(made, op, run);
        case Kind::three:
            return three(made, op, run);
        case Kind::product:
            return product(made, op, run);
        case Kind::shift:
            return shift(made, op, run);
        case Kind::widened:
            return widened(made, op, run, false);
        case Kind::widened_sum:
            return widened(made, op, run, true);
        case Kind::scaled:
            return scaled(made, op, run);
        case Kind::indexed:
            return indexed(made, op, run);
        case Kind::extended:
            return extended(made, op, run);
        case Kind::cut:
            return cut(op, run);
        case Kind::compare:
            return compare(made, op, run);
        case Kind::choose:
            return choose(made, op, run);
        case Kind::invert:
            return invert(made, op, run);
        case Kind::predicate:
            return predicate(made, op, run);
    }
}

}  // namespace softgpu::machine_code
