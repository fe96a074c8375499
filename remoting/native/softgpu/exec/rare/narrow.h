// What a conversion to a format of at most 19 bits is told, in Op::imm. Plain numbers: the selector writes
// them and the handlers read them.
#pragma once

#include <cstdint>

namespace softgpu::narrowing {

enum Rounding : uint64_t { kNearest, kZero, kDown, kUp, kAway };  // kAway: to nearest, ties from zero
constexpr uint64_t kRounding = 7;                                 // the bits of imm that hold it
constexpr uint64_t kIntegral = 8;   // round to an integer first, in the same mode
constexpr uint64_t kSaturate = 16;  // into [0, 1]; NaN is 0
constexpr uint64_t kRelu = 32;      // negative numbers are 0
constexpr uint64_t kFinite = 64;    // the largest number instead of infinity
constexpr uint64_t kFlush = 128;    // f32 denormals that come in are 0

}  // namespace softgpu::narrowing
