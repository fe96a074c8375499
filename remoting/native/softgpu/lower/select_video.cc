// The video instructions: their many modifiers become one number that the handler takes apart.
#include <algorithm>

#include "exec/rare/video.h"
#include "lower/select.h"

namespace softgpu::lower {

using namespace video;

namespace {

const std::pair<std::string_view, uint64_t> kOperations[] = {
    {"vadd", kAdd},      {"vsub", kSub}, {"vabsdiff", kDifference},
    {"vavrg", kAverage}, {"vmin", kMin}, {"vmax", kMax},
    {"vshl", kShl},      {"vshr", kShr}, {"vset", kSet},
};

uint64_t operation_named(std::string_view name) {
    for (const auto& [operation, number] : kOperations) {
        if (operation == name) return number;
    }
    return 0;
}

uint64_t signs(ptx::Type d, ptx::Type a, ptx::Type b) {
    return kSigned.put(uint64_t(is_signed(d)) | uint64_t(is_signed(a)) << 1 | uint64_t(is_signed(b)) << 2);
}

}  // namespace

// A register, or a byte or half of one; `part` is its place times 8 plus its bytes.
uint32_t Selector::video_operand(size_t index, unsigned& part) {
    const ptx::Operand& given = operand(index);
    part = 4;
    if (!given.part.empty()) {
        const bool half =
            given.part.size() == 2 && given.part[0] == 'h' && (given.part[1] == '0' || given.part[1] == '1');
        const bool byte =
            given.part.size() == 2 && given.part[0] == 'b' && given.part[1] >= '0' && given.part[1] <= '3';
        if (!half && !byte) fail("unknown part ." + std::string(given.part.substr(0, 80)) + " of a register");
        const unsigned number = unsigned(given.part[1] - '0');
        part = half ? number * 16 + 2 : number * 8 + 1;
    }
    ptx::Operand whole = given;
    whole.part = {};
    whole.minus = false;
    return index == 0 ? dest(whole, Type::b32) : source(whole, Type::b32);
}

// The types of d, a and b, and what the comparison of vset is: it has no type for d.
uint64_t Selector::video_types() const {
    Type types[3] = {Type::u32, Type::u32, Type::u32};
    size_t at = now_->opcode.starts_with("vset") ? 1 : 0;
    for (const auto modifier : now_->mods) {
        const Type type = ptx::type_named(modifier);
        if (type != Type::none && at < 3) types[at++] = type;
    }
    const auto test = which({"eq", "ne", "lt", "le", "gt", "ge"});
    return signs(types[0], types[1], types[2]) | kCompare.put(test.value_or(0)) | kClamped.put(has("sat"));
}

// vadd, vsub, vabsdiff, vmin, vmax, vshl, vshr, vset
void Selector::pick_video() {
    static constexpr uint64_t kAfter[] = {kSum, kLeast, kMost};
    uint64_t imm = kOperation.put(operation_named(now_->opcode)) | kWraps.put(has("wrap")) | video_types();
    const auto second = which({"add", "min", "max"});
    unsigned parts[3];
    const bool merges = !operand(0).part.empty();
    expect_operands(merges || second ? 4 : 3, merges || second ? 4 : 3);
    const uint32_t to = video_operand(0, parts[0]), x = video_operand(1, parts[1]),
                   y = video_operand(2, parts[2]);
    const uint32_t c = now_->operands.size() == 4 ? source(3, Type::b32) : immediate(Width::narrow, 0);
    const uint64_t after = merges ? uint64_t(kMerge) : second ? kAfter[*second] : uint64_t(kNone);
    imm |= kSecond.put(after) | kPartD.put(parts[0]) | kPartA.put(parts[1]) | kPartB.put(parts[2]);
    emit(code(), to, x, y, c).imm = imm;
}

void Selector::pick_video_mad() {
    const bool plus_one = has("po");
    uint64_t imm = kOperation.put(kMad) | video_types();
    imm |= kShift.put(has("shr7") ? 7 : has("shr15") ? 15 : 0);
    expect_operands(4, 4);
    const bool product = operand(1).minus != operand(2).minus, addend = operand(3).minus;
    if (plus_one + product + addend > 1) unknown();
    imm |= kNegated.put(plus_one ? kPlusOne : product ? kProduct : addend ? kAddend : kPlain);
    unsigned parts[4];
    const uint32_t to = video_operand(0, parts[0]), x = video_operand(1, parts[1]),
                   y = video_operand(2, parts[2]);
    const uint32_t c = video_operand(3, parts[3]);
    emit(code(), to, x, y, c).imm = imm | kPartA.put(parts[1]) | kPartB.put(parts[2]);
}

// vadd2 and its kin: 2 halves or 4 bytes at once.
void Selector::pick_video_parts() {
    const unsigned count = unsigned(now_->opcode.back() - '0');
    const uint64_t operation = operation_named(now_->opcode.substr(0, now_->opcode.size() - 1));
    uint64_t imm = kOperation.put(operation) | kParts.put(count) | video_types();
    imm |= kSecond.put(has("add") ? kSum : kNone);
    expect_operands(4, 4);
    // "h10" or "b3210": of d the parts that are written, of a and b the sources, the highest part first.
    uint64_t picks[3] = {0, 0, 0};
    for (size_t i = 0; i < 3; ++i) {
        const std::string_view part = operand(i).part;
        if (part.empty()) {
            for (unsigned n = 0; n < count; ++n)
                picks[i] |= i == 0 ? uint64_t(1) << n : uint64_t(i == 1 ? n : count + n) << (3 * n);
            continue;
        }
        if (part[0] != (count == 2 ? 'h' : 'b') || (i > 0 && part.size() != count + 1)) unknown();
        for (size_t n = 1; n < part.size(); ++n) {
            const uint64_t number = uint64_t(part[n] - '0');
            if (number >= (i == 0 ? count : 2 * count)) unknown();
            picks[i] |= i == 0 ? uint64_t(1) << number : number << (3 * (part.size() - 1 - n));
        }
    }
    // Both may pick from {b, a}: a's parts are the lower numbers.
    ptx::Operand to = operand(0), x = operand(1), y = operand(2);
    to.part = x.part = y.part = {};
    emit(code(), dest(to, Type::b32), source(x, Type::b32), source(y, Type::b32), source(3, Type::b32)).imm =
        imm | kPartD.put(picks[0]) | kPickA.put(picks[1]) | kPickB.put(picks[2]);
}

}  // namespace softgpu::lower
