// Handlers that are compiled once, for any machine of the architecture: what programs use seldom, or where
// the work is not in vector arithmetic. They are written with the same parts as those in exec/lanes.
#pragma once

#include "exec/lanes/floats.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

// d = f(imm, a, b, ...), lane by lane: what an instruction's modifiers say is in the op.
template <auto f>
const Op* lanes_by(const Op* op, Warp* warp) {
    [&]<class D, class F, class... S>(D (F::*)(u64, S...) const) {
        [&]<size_t... N>(std::index_sequence<N...>) {
            Held<D>* to = result<D>(op, warp);
            [&](const Held<S>*... in) {
                for (u32 i = 0; i < kLanes; ++i) to[i] = Box<D>::close(f(op->imm, Box<S>::open(in[i])...));
            }(slot<S>(warp, operand(op, N))...);
        }(std::index_sequence_for<S...>{});
        finish<D>(op, warp);
    }(&decltype(f)::operator());
    return op + 1;
}

}  // namespace
}  // namespace softgpu::SOFTGPU_ISA
