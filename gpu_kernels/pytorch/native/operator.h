// The kernel that stands in for all of the device's: the operator's own kernel for the processor, on the
// slice's memory.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

#include "operands.h"

namespace gk {

class ProcessorKernel final : public c10::OperatorKernel {
  public:
    ProcessorKernel(const c10::OperatorHandle& op, const SliceMemory& memory);

    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const;

  private:
    c10::Device device_of(const torch::jit::Stack& stack) const;
    void lend(Operands& operands, torch::jit::Stack& stack, c10::Device device) const;

    const SliceMemory& memory_;
    const std::string name_;
    struct Parameter {
        Use use;
        Where where;
        bool is_generator;
    };
    std::vector<Parameter> parameters_;
};

}  // namespace gk
