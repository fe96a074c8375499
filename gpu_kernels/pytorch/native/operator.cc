#include "operator.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <string_view>

#include "life.h"
#include "random.h"
#include "results.h"

namespace gk {
namespace {

using c10::IValue;
using torch::jit::Stack;

// Their schemas do not say that they write the running statistics.
constexpr std::string_view kBatchNorms[] = {"aten::native_batch_norm", "aten::batch_norm_update_stats"};
constexpr std::string_view kRunning = "running_";
// Of these no operand that is written is read.
constexpr std::string_view kOverwriting[] = {"aten::copy_",     "aten::zero_",    "aten::fill_",
                                             "aten::normal_",   "aten::uniform_", "aten::random_",
                                             "aten::bernoulli_"};

// What the device's own kernels take from other devices too: they copy, read on the host, or treat each
// tensor of a list by itself.
struct Anywhere {
    std::string_view name, argument;  // how they begin
};
constexpr Anywhere kAnywhere[] = {
    {"aten::copy_", ""},
    {"aten::_foreach_", ""},
    {"aten::index", "indices"},
    {"aten::_index_put_impl_", "indices"},
    {"aten::bernoulli_", "p"},
    {"aten::quantize_per_channel", "scales"},
    {"aten::quantize_per_channel", "zero_points"},
    {"aten::_ctc_loss", "targets"},
    {"aten::_ctc_loss", "input_lengths"},
    {"aten::_ctc_loss", "target_lengths"},
};

bool begins_with(std::string_view text, std::string_view start) {
    return text.substr(0, start.size()) == start;
}

template <size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Where where_of(const c10::OperatorHandle& op, const c10::Argument& argument) {
    const bool anywhere = std::any_of(std::begin(kAnywhere), std::end(kAnywhere), [&](const Anywhere& each) {
        return begins_with(op.operator_name().name, each.name) && begins_with(argument.name(), each.argument);
    });
    return anywhere ? Where::kAnywhere : Where::kOnDevice;
}

Use use_of(const c10::OperatorHandle& op, const c10::Argument& argument) {
    const std::string& name = op.operator_name().name;
    if (!argument.alias_info() || !argument.alias_info()->isWrite()) {
        const bool unsaid = contains(kBatchNorms, name) && begins_with(argument.name(), kRunning);
        return unsaid ? Use::kChange : Use::kRead;
    }
    return contains(kOverwriting, name) || argument.is_out() ? Use::kOverwrite : Use::kChange;
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

void lend_value(Operands& operands, IValue& value, Use use, Where where) {
    if (value.isTensor()) {
        value = operands.lend(value.toTensor(), use, where);
    } else if (value.isTensorList()) {
        c10::List<at::Tensor> lent;
        for (const at::Tensor& tensor : value.toTensorList())
            lent.push_back(operands.lend(tensor, use, where));
        value = std::move(lent);
    } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> lent;
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
            lent.push_back(tensor ? std::optional(operands.lend(*tensor, use, where)) : std::nullopt);
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
        parameters_.push_back({use_of(op, argument), where_of(op, argument), is_generator(argument)});
    }
}

c10::Device ProcessorKernel::device_of(const Stack& stack) const {
    for (auto value = stack.end() - static_cast<ptrdiff_t>(parameters_.size()); value != stack.end();
         ++value) {
        if (auto device = device_in(*value)) return *device;
    }
    return c10::Device(c10::kCUDA);
}

void ProcessorKernel::lend(Operands& operands, Stack& stack, c10::Device device) const {
    IValue* const arguments = stack.data() + stack.size() - parameters_.size();
    for (size_t i = 0; i < parameters_.size(); ++i) {
        if (parameters_[i].is_generator) {
            const auto given =
                arguments[i].isNone() ? std::nullopt : std::optional(arguments[i].toGenerator());
            arguments[i] = next_generator(given, device);
        } else {
            lend_value(operands, arguments[i], parameters_[i].use, parameters_[i].where);
        }
    }
}

void ProcessorKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) const {
    require_first_life();
    const c10::Device device = device_of(*stack);
    const c10::OptionalDeviceGuard on_device(device.has_index() ? std::optional(device) : std::nullopt);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    Operands operands(memory_);
    operands.begin(device, name_.c_str());
    lend(operands, *stack, device);
    {
        const ResultsInSlice results(memory_);
        op.redispatchBoxed(operands.keys(), stack);
        operands.give_back();
    }
    IValue* const end = stack->data() + stack->size();
    for (IValue* value = end - op.schema().returns().size(); value != end; ++value)
        take_result(operands, *value);
}

}  // namespace gk
