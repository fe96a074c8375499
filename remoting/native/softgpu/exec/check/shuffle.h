// What the handlers of shuffles, which are compiled for each instruction set, call when a launch is checked.
#pragma once

#include <cstdint>

namespace softgpu {
struct Op;
struct Warp;
}  // namespace softgpu

namespace softgpu::check {

// The warp's running lanes are at a shuffle; each reads from lane from[lane], of 32.
void look_at_sources(const Op* op, Warp* warp, const uint32_t* from);

}  // namespace softgpu::check
