// The video instructions: parts of words in integer arithmetic that is exact until it is clamped or cut.
#include "exec/rare/video.h"

#include "exec/rare/rare.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

using namespace video;

SOFTGPU_INLINE s64 extended(u32 word, unsigned at, unsigned bits, bool is_signed) {
    const u64 part = u64(word) >> at & ((u64(1) << bits) - 1);
    return is_signed ? s64(part << (64 - bits)) >> (64 - bits) : s64(part);
}
SOFTGPU_INLINE s64 into_range(s64 x, unsigned bits, bool is_signed) {
    const s64 most = s64((u64(1) << (is_signed ? bits - 1 : bits)) - 1), least = is_signed ? -most - 1 : 0;
    return x < least ? least : x > most ? most : x;
}
SOFTGPU_INLINE bool holds(u64 compare, s64 a, s64 b) {
    switch (compare) {
        case kEq:
            return a == b;
        case kNe:
            return a != b;
        case kLt:
            return a < b;
        case kLe:
            return a <= b;
        case kGt:
            return a > b;
        default:
            return a >= b;
    }
}

// Half the sum, a half rounded from zero.
SOFTGPU_INLINE s64 average(s64 a, s64 b) {
    return (a + b + (a + b >= 0)) >> 1;
}

SOFTGPU_INLINE s64 combined(u64 imm, s64 a, s64 b, unsigned bits) {
    switch (kOperation.of(imm)) {
        case kAdd:
            return a + b;
        case kSub:
            return a - b;
        case kDifference:
            return a < b ? b - a : a - b;
        case kAverage:
            return average(a, b);
        case kMin:
            return a < b ? a : b;
        case kMax:
            return a < b ? b : a;
        case kSet:
            return holds(kCompare.of(imm), a, b);
        default:
            break;
    }
    const u64 count = kWraps.of(imm) ? u64(b) & (bits - 1) : u64(b) > bits ? bits : u64(b);
    return kOperation.of(imm) == kShl ? s64(u64(a) << count) : a >> count;
}

// What becomes of the result and c: a sum and the like, or the result put in a part of c.
SOFTGPU_INLINE u32 second(u64 imm, s64 value, u32 c) {
    const bool is_signed = kSigned.of(imm) & 1;
    const s64 with = is_signed ? s64(s32(c)) : s64(c), mine = is_signed ? s64(s32(value)) : s64(u32(value));
    switch (kSecond.of(imm)) {
        case kSum:
            return u32(value) + c;
        case kLeast:
            return u32(mine < with ? mine : with);
        case kMost:
            return u32(mine > with ? mine : with);
        case kMerge: {
            const unsigned at = unsigned(kPartD.of(imm) / 8) * 8, bits = unsigned(kPartD.of(imm) % 8) * 8;
            const u32 mask = u32(((u64(1) << bits) - 1) << at);
            return (c & ~mask) | (u32(value) << at & mask);
        }
        default:
            return u32(value);
    }
}

SOFTGPU_INLINE s64 part_of(u32 word, u64 part, bool is_signed) {
    return extended(word, unsigned(part / 8) * 8, unsigned(part % 8) * 8, is_signed);
}

u32 scalar(u64 imm, u32 a, u32 b, u32 c) {
    const u64 signs = kSigned.of(imm);
    s64 value =
        combined(imm, part_of(a, kPartA.of(imm), signs & 2), part_of(b, kPartB.of(imm), signs & 4), 32);
    const unsigned bits = kSecond.of(imm) == kMerge ? unsigned(kPartD.of(imm) % 8) * 8 : 32;
    if (kClamped.of(imm)) value = into_range(value, bits, signs & 1);
    return second(imm, value, c);
}

u32 multiply_add(u64 imm, u32 a, u32 b, u32 c) {
    const u64 signs = kSigned.of(imm), negated = kNegated.of(imm);
    const bool is_signed = signs & 1;
    const __int128 product =
        __int128(part_of(a, kPartA.of(imm), signs & 2)) * part_of(b, kPartB.of(imm), signs & 4);
    const __int128 addend = is_signed ? s64(s32(c)) : s64(c);
    __int128 sum = (negated == kProduct ? -product : product) + (negated == kAddend ? -addend : addend);
    if (negated == kPlusOne) sum += 1;
    sum >>= kShift.of(imm);
    if (kClamped.of(imm)) {
        const __int128 most = is_signed ? INT32_MAX : UINT32_MAX, least = is_signed ? INT32_MIN : 0;
        sum = sum < least ? least : sum > most ? most : sum;
    }
    return u32(u64(sum));
}

// 2 or 4 parts, each picked from the 4 or 8 of {b, a}; those that the mask leaves out are c's.
u32 parts(u64 imm, u32 a, u32 b, u32 c) {
    const u64 signs = kSigned.of(imm);
    const unsigned count = unsigned(kParts.of(imm)), bits = 32 / count;
    const u64 mask = kPartD.of(imm);
    u32 out = 0;
    s64 total = 0;
    for (unsigned i = 0; i < count; ++i) {
        const unsigned from_a = unsigned(kPickA.of(imm) >> (3 * i) & 7),
                       from_b = unsigned(kPickB.of(imm) >> (3 * i) & 7);
        const s64 x = extended(from_a < count ? a : b, from_a % count * bits, bits, signs & 2);
        const s64 y = extended(from_b < count ? a : b, from_b % count * bits, bits, signs & 4);
        s64 value = combined(imm, x, y, bits);
        if (kClamped.of(imm)) value = into_range(value, bits, signs & 1);
        if (!(mask >> i & 1)) {
            out |= c & u32(((u64(1) << bits) - 1) << (i * bits));
            continue;
        }
        out |= u32(u64(value) & ((u64(1) << bits) - 1)) << (i * bits);
        total += value;
    }
    return kSecond.of(imm) == kSum ? c + u32(total) : out;
}

const HandlerEntry kEntries[] = {
    {"video", lanes_by<[](u64 imm, u32 a, u32 b, u32 c) { return scalar(imm, a, b, c); }>},
    {"video.mad", lanes_by<[](u64 imm, u32 a, u32 b, u32 c) { return multiply_add(imm, a, b, c); }>},
    {"video.parts", lanes_by<[](u64 imm, u32 a, u32 b, u32 c) { return parts(imm, a, b, c); }>},
};

}  // namespace

extern const HandlerTable kVideoHandlers;
const HandlerTable kVideoHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
