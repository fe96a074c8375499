#include "operator.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <string_view>

#include "random.h"
#include "results.h"

namespace gk {
namespace {

using c10::IValue;
using torch::jit::Stack;

// Its schema does not say that it writes the running statistics.
constexpr std::string_view kBatchNorm = "aten::native_batch_norm", kRunning = "running_";
// Of these no operand that is written is read.
constexpr std::string_view kOverwriting[] = {"aten::copy_",     "aten::zero_",    "aten::fill_",
                                             "aten::normal_",   "aten::uniform_", "aten::random_",
                                             "aten::bernoulli_"};

Use use_of(const c10::OperatorHandle& op, const c10::Argument& argument) {
    const std::string& name = op.operator_name().name;
    if (!argument.alias_info() || !argument.alias_info()->isWrite()) {
        const bool unsaid = name == kBatchNorm && argument.name().rfind(kRunning, 0) == 0;
        return unsaid ? Use::kChange : Use::kRead;
    }
    const bool overwrites =
        std::find(std::begin(kOverwriting), std::end(kOverwriting), name) != std::end(kOverwriting);
    return overwrites || argument.is_out() ? Use::kOverwrite : Use::kChange;
}

// The first device in an argument, if any.
std::optional<c10::Device> device_in(const IValue& value) {
    if (value.isTensor()) {
        const at::Tensor& tensor = value.toTensor();
        if (tensor.defined() && tensor.device().is_cuda()) return tensor.device();
    } else if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorList()) {
            if (auto device = device_in(tensor)) return device;
        }
    } else if (value.isOptionalTensorList()) {
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
            if (auto device = tensor ? device_in(*tensor) : std::nullopt) return device;
        }
    } else if (value.isDevice() && value.toDevice().is_cuda()) {
        return value.toDevice();
    }
    return std::nullopt;
}

void lend_value(Operands& operands, IValue& value, Use use) {
    if (value.isTensor()) {
        value = operands.lend(value.toTensor(), use);
    } else if (value.isTensorList()) {
        c10::List<at::Tensor> lent;
        for (const at::Tensor& tensor : value.toTensorList()) lent.push_back(operands.lend(tensor, use));
        value = std::move(lent);
    } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> lent;
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
            lent.push_back(tensor ? std::optional(operands.lend(*tensor, use)) : std::nullopt);
        }
        value = std::move(lent);
    } else if (value.isDevice() && value.toDevice().is_cuda()) {
        value = c10::Device(c10::kCPU);
    }
}

void take_result(Operands& operands, IValue& value) {
    if (value.isTensor()) {
        value = operands.result(value.toTensor());
    } else if (value.isTensorList()) {
        c10::List<at::Tensor> results;
        for (const at::Tensor& tensor : value.toTensorList()) results.push_back(operands.result(tensor));
        value = std::move(results);
    }
}

bool is_generator(const c10::Argument& argument) {
    return argument.type()->repr_str().find("Generator") != std::string::npos;
}

}  // namespace

ProcessorKernel::ProcessorKernel(const c10::OperatorHandle& op, const SliceMemory& memory)
    : memory_(memory), name_(toString(op.operator_name())) {
    for (const c10::Argument& argument : op.schema().arguments()) {
        uses_.push_back(use_of(op, argument));
        is_generator_.push_back(is_generator(argument));
    }
}

c10::Device ProcessorKernel::device_of(const Stack& stack) const {
    for (auto value = stack.end() - static_cast<ptrdiff_t>(uses_.size()); value != stack.end(); ++value) {
        if (auto device = device_in(*value)) return *device;
    }
    return c10::Device(c10::kCUDA);
}

void ProcessorKernel::lend(Operands& operands, Stack& stack, c10::Device device) const {
    IValue* const arguments = stack.data() + stack.size() - uses_.size();
    for (size_t i = 0; i < uses_.size(); ++i) {
        if (is_generator_[i]) {
            const auto given =
                arguments[i].isNone() ? std::nullopt : std::optional(arguments[i].toGenerator());
            arguments[i] = next_generator(given, device);
        } else {
            lend_value(operands, arguments[i], uses_[i]);
        }
    }
}

void ProcessorKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) const {
    const c10::Device device = device_of(*stack);
    const c10::OptionalDeviceGuard on_device(device.has_index() ? std::optional(device) : std::nullopt);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    Operands operands(memory_);
    operands.begin(device, name_.c_str());
    lend(operands, *stack, device);
    {
        const ResultsInSlice results(memory_.in_place());
        op.redispatchBoxed(operands.keys(), stack);
        operands.give_back();
    }
    IValue* const end = stack->data() + stack->size();
    for (IValue* value = end - op.schema().returns().size(); value != end; ++value)
        take_result(operands, *value);
}

}  // namespace gk
