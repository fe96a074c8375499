// Puts the processor's kernels in the place of the device's.
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/codegen/fuser/interface.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_set>

#include "by_hand.h"
#include "life.h"
#include "operator.h"
#include "results.h"

namespace gk {
namespace {

using c10::DispatchKey;
using torch::CppFunction;

// They allocate, look at a tensor from another side, or tell of it: nothing runs on the device for them.
const std::unordered_set<std::string> kNoKernel = {
    "_dimI",
    "_dimV",
    "_empty_affine_quantized",
    "_indices",
    "_nnz",
    "_empty_per_channel_affine_quantized",
    "_pin_memory",
    "_reshape_alias",
    "_has_same_storage_numel",
    "_values",
    "as_strided",
    "_efficientzerotensor",
    "ccol_indices",
    "col_indices",
    "_sparse_coo_tensor_with_dims",
    "crow_indices",
    "dense_dim",
    "_sparse_coo_tensor_with_dims_and_tensors",
    "empty",
    "empty_like",
    "_sparse_compressed_tensor_with_dims",
    "empty_quantized",
    "empty_strided",
    "_nested_view_from_buffer",
    "indices",
    "is_coalesced",
    "_cudnn_init_dropout_state",
    "is_pinned",
    "is_set_to",
    "_use_cudnn_ctc_loss",
    "_coalesced_",
    "permute",
    "_use_miopen_ctc_loss",
    "q_scale",
    "q_zero_point",
    "q_per_channel_axis",
    "qscheme",
    "record_stream",
    "q_per_channel_scales",
    "resize_",
    "resize_as_",
    "q_per_channel_zero_points",
    "row_indices",
    "select",
    "resize_as_sparse_",
    "set_",
    "sparse_dim",
    "sparse_resize_",
    "squeeze",
    "unfold",
    "sparse_resize_and_clear_",
    "unsqueeze",
    "values",
    "view",
    "view_as_complex",
    "view_as_real",
    "_fused_sdp_choice",
};

struct Backend {
    DispatchKey device, processor;
};
constexpr Backend kBackends[] = {{DispatchKey::CUDA, DispatchKey::CPU},
                                 {DispatchKey::SparseCUDA, DispatchKey::SparseCPU},
                                 {DispatchKey::SparseCsrCUDA, DispatchKey::SparseCsrCPU},
                                 {DispatchKey::QuantizedCUDA, DispatchKey::QuantizedCPU}};

// The device has none of its own: PyTorch chooses among several by the device. Ours is chosen first.
constexpr const char* kBeforeTheChoice[] = {
    "aten::copy_",        "aten::convolution",  "aten::convolution_backward",
    "aten::_convolution", "aten::ldexp.out",    "aten::convolution_overrideable",
    "aten::ldexp_",       "aten::ldexp.Tensor", "aten::_validate_sparse_coo_tensor_args"};

std::optional<c10::OperatorHandle> operator_named(const std::string& name) {
    const size_t dot = name.find('.');
    const bool overloaded = dot != std::string::npos;
    return c10::Dispatcher::singleton().findSchema(
        {name.substr(0, dot), overloaded ? name.substr(dot + 1) : ""});
}

bool has_kernel(const c10::OperatorHandle& op, DispatchKey processor) {
    return op.hasKernelForDispatchKey(processor) ||
           op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
           op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
           op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
}

// What has no kernel for the processor, nor one of ours.
class Refusal final : public c10::OperatorKernel {
  public:
    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) const {
        TORCH_CHECK_NOT_IMPLEMENTED(
            false, "gpu-kernels: ", toString(op.operator_name()),
            " is not there on a software GPU: PyTorch's operators run on this machine's processor, and this "
            "one has "
            "no kernel for it. Choose what PyTorch has for processors too; for cuDNN's: "
            "torch.backends.cudnn.enabled = False, for fused attention: torch.nn.attention.SDPBackend.MATH.");
    }
};

// PyTorch warns of each kernel that is put in another's place.
class NoWarnings final : public c10::WarningHandler {
    void process(const c10::Warning&) override {}
};

torch::Library& library(const char* name_space, DispatchKey key) {
    // Never given back: its end would take the kernels away while threads may still run.
    return *new torch::Library(torch::Library::IMPL, name_space, key, __FILE__, __LINE__);
}

class Registration {
  public:
    explicit Registration(const SliceMemory& memory) : memory_(memory) {}

    int run() {
        auto& dispatcher = c10::Dispatcher::singleton();
        add_missing(library("aten", DispatchKey::CPU), [&](const char* name) {
            const auto op = operator_named(std::string("aten::") + name);
            return op && !has_kernel(*op, DispatchKey::CPU);
        });
        for (const Backend& backend : kBackends) {
            torch::Library& to = library("aten", backend.device);
            for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(backend.device)) {
                if (name.name.rfind("aten::", 0) != 0 || kNoKernel.count(name.name.substr(6))) continue;
                if (const auto op = dispatcher.findSchema(name)) replace(to, *op, backend);
            }
            if (backend.device != DispatchKey::CUDA) continue;
            for (const char* name : kBeforeTheChoice) {
                if (const auto op = operator_named(name)) replace(to, *op, backend);
            }
            add_to_device(to);
        }
        return replaced_;
    }

  private:
    void replace(torch::Library& to, const c10::OperatorHandle& op, const Backend& backend) {
        const std::string name = toString(op.operator_name());
        if (has_kernel(op, backend.processor)) {
            to.impl(name.c_str(),
                    CppFunction::makeFromBoxedFunctor(std::make_unique<ProcessorKernel>(op, memory_)));
            ++replaced_;
        } else if (backend.device == DispatchKey::CUDA) {
            to.impl(name.c_str(), CppFunction::makeFromBoxedFunctor(std::make_unique<Refusal>()));
        }
    }

    const SliceMemory& memory_;
    int replaced_ = 0;
};

}  // namespace
}  // namespace gk

namespace gk {
namespace {

// Ours would take itself for the processor's allocator the second time, and kernels are not put in twice.
// What has stopped half way stays so: PyTorch cannot take back what is registered.
class Switch {
  public:
    int on(Way way) {
        const std::lock_guard lock(mutex_);
        if (replaced_ >= 0) return replaced_;
        TORCH_CHECK(!began_, "gpu-kernels: it stopped half way before; restart the kernel");
        began_ = true;
        require_first_life();
        static NoWarnings no_warnings;
        const c10::WarningUtils::WarningHandlerGuard quiet(&no_warnings);
        const SliceMemory& memory = memory_of(way);
        if (memory.in_place()) stand_before_the_processors_allocator();
        // Both choose kernels of the device by looking at nothing but these.
        at::globalContext().setUserEnabledCuDNN(false);
        at::globalContext().setSDPUseMemEfficient(false);
        at::globalContext().setSDPUseCuDNN(false);
        // TorchScript makes machine code of several operators in a row.
        torch::jit::overrideCanFuseOnGPU(false);
        return replaced_ = Registration(memory).run();
    }

  private:
    std::mutex mutex_;
    bool began_ = false;
    int replaced_ = -1;
};

}  // namespace
}  // namespace gk

// When PyTorch has started its device; later calls change nothing. `way`: gk::Way. Returns how many operators
// run on the processor now, or -1 and says why in `error`.
extern "C" __attribute__((visibility("default"))) int gk_pytorch_switch_on(int way, char* error,
                                                                           size_t room) {
    try {
        static gk::Switch the_switch;
        return the_switch.on(static_cast<gk::Way>(way));
    } catch (const std::exception& exception) {
        std::snprintf(error, room, "%s", exception.what());
        return -1;
    }
}

// What of the slice's memory operators have copied so far, in bytes: tests ask.
extern "C" __attribute__((visibility("default"))) uint64_t gk_pytorch_copied_bytes() {
    return gk::copied_bytes();
}
