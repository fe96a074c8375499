// What a video instruction is told, in Op::imm: small numbers, each in bits of its own. The selector writes
// them and the handler reads them.
#pragma once

#include <cstdint>

namespace softgpu::video {

enum Operation : uint64_t { kAdd, kSub, kDifference, kAverage, kMin, kMax, kShl, kShr, kSet, kMad };
enum Second : uint64_t { kNone, kSum, kLeast, kMost, kMerge, kWord };  // what happens with c
enum Compare : uint64_t { kEq, kNe, kLt, kLe, kGt, kGe };
enum Negated : uint64_t { kPlain, kProduct, kAddend, kPlusOne };  // of vmad; kPlusOne is .po

struct Field {
    unsigned at, bits;
    uint64_t of(uint64_t imm) const { return imm >> at & ((uint64_t(1) << bits) - 1); }
    uint64_t put(uint64_t value) const { return value << at; }
};
constexpr Field kOperation{0, 4}, kSecond{4, 3}, kCompare{7, 3}, kNegated{10, 2};
constexpr Field kSigned{12, 3};                  // of d, a, b: bits 0, 1, 2
constexpr Field kClamped{15, 1}, kWraps{16, 1};  // .sat; .wrap of a shift
constexpr Field kShift{17, 4};                   // of vmad
constexpr Field kParts{21, 3};                   // 1, 2 or 4 values in a word
// Scalar forms: where the part lies in the word and how long it is, in bytes (4: the whole).
constexpr Field kPartA{24, 5}, kPartB{29, 5}, kPartD{34, 5};  // place * 8 + bytes
// Forms of 2 and 4 parts: which part of {b, a} each takes, 4 bits each; and which parts of d are written.
constexpr Field kPickA{39, 12}, kPickB{51, 12};  // 3 bits each

}  // namespace softgpu::video
