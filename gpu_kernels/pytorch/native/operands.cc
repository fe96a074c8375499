#include "operands.h"

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/quantized/QTensorImpl.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "results.h"

namespace gk {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

constexpr DispatchKeySet kBelowAutograd{DispatchKeySet::FULL_AFTER, DispatchKey::ADInplaceOrView};
// Whoever called the device's kernel has looked at these, and left them for the kernel to see to.
constexpr DispatchKeySet kSeenTo{DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::ZeroTensor};

bool is_of_device(const at::Tensor& tensor) {
    return tensor.defined() && tensor.device().is_cuda();
}

bool has_parts(const at::Tensor& tensor) {
    return tensor.layout() != c10::kStrided;
}

// By which a kernel is chosen.
DispatchKeySet keys_of(const at::Tensor& tensor) {
    return (tensor.key_set() & kBelowAutograd) - kSeenTo;
}

// From the first byte that the tensor can reach to its last.
Extent extent_of(const at::Tensor& tensor) {
    if (tensor.numel() == 0) return {};
    int64_t last = 0;
    for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
    const size_t item = tensor.itemsize();
    return {static_cast<size_t>(tensor.storage_offset()) * item, static_cast<size_t>(last + 1) * item};
}

// The bytes of its elements and no others, so that what lies between them stays as other streams leave it:
// as blocks of equal runs. Where it takes very many blocks, from its first byte to its last.
template <typename Visit>
void for_each_block(const at::Tensor& tensor, Visit visit) {
    constexpr int64_t kMost = 1024;
    const Extent extent = extent_of(tensor);
    if (extent.bytes == 0) return;
    struct Dimension {
        size_t stride, size;
    };
    c10::SmallVector<Dimension, 6> dimensions;
    const size_t item = tensor.itemsize();
    for (int64_t i = 0; i < tensor.dim(); ++i) {
        if (tensor.size(i) > 1 && tensor.stride(i) > 0) {
            dimensions.push_back(
                {static_cast<size_t>(tensor.stride(i)) * item, static_cast<size_t>(tensor.size(i))});
        }
    }
    std::sort(dimensions.begin(), dimensions.end(),
              [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
    // What follows without a gap becomes one run, or one block of runs.
    Block block{extent.first, item};
    auto rest = dimensions.begin();
    for (; rest != dimensions.end() && rest->stride <= block.bytes; ++rest)
        block.bytes += (rest->size - 1) * rest->stride;
    if (rest != dimensions.end()) {
        block.pitch = rest->stride;
        block.rows = rest->size;
        for (++rest; rest != dimensions.end() && rest->stride == block.pitch * block.rows; ++rest)
            block.rows *= rest->size;
    }
    int64_t blocks = 1;
    for (auto each = rest; each != dimensions.end(); ++each) blocks *= static_cast<int64_t>(each->size);
    if (blocks > kMost) return visit(Block{extent.first, extent.bytes});
    for (int64_t number = 0; number < blocks; ++number) {
        Block here = block;
        size_t left = static_cast<size_t>(number);
        for (auto each = rest; each != dimensions.end(); left /= each->size, ++each)
            here.first += left % each->size * each->stride;
        visit(here);
    }
}

c10::Stream stream_of(c10::Device device) {
    return c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(device);
}

// Another tensor of the same kind and shape, over `storage`.
at::Tensor with_storage(const at::Tensor& like, c10::Storage storage, c10::BackendComponent from,
                        c10::BackendComponent to) {
    c10::TensorImpl* const impl = like.unsafeGetTensorImpl();
    const DispatchKeySet keys = (impl->key_set() & kBelowAutograd).remove_backend(from) | DispatchKeySet(to);
    at::Tensor tensor;
    if (like.is_quantized()) {
        auto* const quantized = static_cast<at::QTensorImpl*>(impl);
        tensor = at::detail::make_tensor<at::QTensorImpl>(std::move(storage), keys, like.dtype(),
                                                          quantized->quantizer());
    } else {
        tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
    }
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    return tensor;
}

}  // namespace

void Operands::begin(c10::Device device, const char* name) {
    const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
    if (!device.has_index()) device = guard.getDevice();
    const c10::Stream stream = guard.getStream(device);
    TORCH_CHECK(
        !guard.isStreamCapturing(stream), "gpu-kernels: ", name,
        " cannot be captured in a CUDA graph on a software GPU: PyTorch's operators run on the processor "
        "there, "
        "and a graph would replay nothing of them. Run it without torch.cuda.graph; torch.compile: without "
        "mode=\"reduce-overhead\", or with mode=\"max-autotune-no-cudagraphs\".");
    stream_ = stream;
    wait_for(device);
}

void Operands::wait_for(c10::Device device) const {
    memory_.wait(stream_of(device));
}

// As TensorIterator and the device's wrappers see it.
void Operands::require_place(const at::Tensor& tensor, Use use) const {
    if (tensor.device() == stream().device()) return;
    if (tensor.device().is_cpu() && tensor.dim() == 0 && use == Use::kRead) return;
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
                stream().device(), " and ", tensor.device(), "!");
}

c10::Storage Operands::lend(const c10::Storage& storage) {
    for (const Storage& known : storages_) {
        if (known.device.is_alias_of(storage)) return known.host;
    }
    c10::Storage host(c10::Storage::use_byte_size_t(), storage.nbytes(), memory_.open(storage),
                      c10::GetAllocator(c10::kCPU), true);
    storages_.push_back({storage, host, const_cast<void*>(host.data())});
    return host;
}

at::Tensor Operands::lend_dense(const at::Tensor& tensor, Use use) {
    c10::Storage host = lend(tensor.storage());
    at::Tensor lent =
        with_storage(tensor, host, c10::BackendComponent::CUDABit, c10::BackendComponent::CPUBit);
    const bool whole = use == Use::kOverwrite && tensor.is_non_overlapping_and_dense();
    if (!whole)
        memory_.fetch(host.mutable_data(), tensor.storage(), extent_of(tensor), stream_of(tensor.device()));
    return lent;
}

at::Tensor Operands::lend_sparse(const at::Tensor& tensor, Use use) {
    if (use == Use::kOverwrite) use = Use::kChange;  // a kernel may keep some of the parts
    const auto options = tensor.options().device(c10::kCPU);
    if (tensor.layout() == c10::kSparse) {
        const auto* const impl = static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
        return at::_sparse_coo_tensor_unsafe(lend(impl->indices(), use), lend(impl->values(), use),
                                             tensor.sizes(), options, impl->coalesced());
    }
    const auto* const impl = at::sparse_csr::get_sparse_csr_impl(tensor);
    return at::_sparse_compressed_tensor_unsafe(lend(impl->compressed_indices(), use),
                                                lend(impl->plain_indices(), use), lend(impl->values(), use),
                                                tensor.sizes(), options);
}

at::Tensor Operands::lend(const at::Tensor& tensor, Use use, Where where) {
    if (tensor.defined() && where == Where::kOnDevice) require_place(tensor, use);
    return lend(tensor, use);
}

at::Tensor Operands::lend(const at::Tensor& tensor, Use use) {
    if (!tensor.defined()) return tensor;
    if (!is_of_device(tensor)) {
        keys_ = keys_ | keys_of(tensor);
        if (tensor.has_storage()) processors_.push_back(tensor.storage().unsafeGetStorageImpl());
        return tensor;
    }
    for (const Operand& known : operands_) {
        if (known.device.is_same(tensor) && known.use == use) return known.host;
    }
    TORCH_CHECK(!tensor.is_nested(),
                "gpu-kernels: nested tensors of the device are not served on a software GPU");
    if (tensor.device() != stream().device()) wait_for(tensor.device());
    at::Tensor lent = has_parts(tensor) ? lend_sparse(tensor, use) : lend_dense(tensor, use);
    keys_ = keys_ | keys_of(lent);
    operands_.push_back({tensor, lent, use});
    return lent;
}

void Operands::give_back() {
    // A kernel that wanted more room took it where results are made; what was there is freed with it.
    for (Storage& storage : storages_) {
        if (storage.host.data() == storage.lent) continue;
        const size_t bytes = storage.host.nbytes();
        const c10::Storage moved = device_storage(storage.host);
        storage.device.unsafeGetStorageImpl()->set_data_ptr_noswap(
            moved.unsafeGetStorageImpl()->set_data_ptr(at::DataPtr(nullptr, moved.device())));
        storage.device.set_nbytes(bytes);
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
        if (operands_[i].use != Use::kRead) give_back(Operand(operands_[i]));
    }
}

void Operands::give_back(const Operand& operand) {
    if (has_parts(operand.device)) return give_back_sparse(operand);
    c10::TensorImpl* const device = operand.device.unsafeGetTensorImpl();
    if (operand.host.sizes() != operand.device.sizes() ||
        operand.host.strides() != operand.device.strides()) {
        device->set_sizes_and_strides(operand.host.sizes(), operand.host.strides(),
                                      operand.host.storage_offset());
    }
    if (operand.host.storage().data()) {
        const c10::Stream stream = stream_of(operand.device.device());
        for_each_block(operand.host, [&](Block block) {
            memory_.put(operand.host.storage().data(), operand.device.storage(), block, stream);
        });
    }
}

// Its parts may be others than before.
void Operands::give_back_sparse(const Operand& operand) {
    if (operand.device.layout() != c10::kSparse) {
        const at::Tensor now = sparse_result(operand.host);
        const auto* const from = at::sparse_csr::get_sparse_csr_impl(now);
        at::sparse_csr::get_sparse_csr_impl(operand.device)
            ->set_member_tensors(from->compressed_indices(), from->plain_indices(), from->values(),
                                 now.sizes());
        return;
    }
    auto* const to = static_cast<at::SparseTensorImpl*>(operand.device.unsafeGetTensorImpl());
    const auto* const from = static_cast<at::SparseTensorImpl*>(operand.host.unsafeGetTensorImpl());
    to->raw_resize_(from->sparse_dim(), from->dense_dim(), operand.host.sizes());
    to->set_indices_and_values_unsafe(result(from->indices()), result(from->values()));
    to->set_coalesced(from->coalesced());
}

c10::Storage Operands::device_storage(const c10::Storage& host) {
    const c10::Device device = stream().device();
    at::Allocator* const allocator = c10::GetAllocator(c10::kCUDA);
    const size_t bytes = host.nbytes();
    if (lies_in_slice(host.data_ptr())) {
        at::DataPtr data =
            host.unsafeGetStorageImpl()->set_data_ptr(at::DataPtr(nullptr, c10::Device(c10::kCPU)));
        return {c10::Storage::use_byte_size_t(), bytes, on_device(std::move(data), device), allocator, true};
    }
    c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, allocator, true);
    memory_.put(host.data(), storage, {.bytes = bytes}, stream());
    return storage;
}

at::Tensor Operands::sparse_result(const at::Tensor& tensor) {
    const auto options = tensor.options().device(stream().device());
    if (tensor.layout() == c10::kSparse) {
        const auto* const impl = static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
        return at::_sparse_coo_tensor_unsafe(result(impl->indices()), result(impl->values()), tensor.sizes(),
                                             options, impl->coalesced());
    }
    const auto* const impl = at::sparse_csr::get_sparse_csr_impl(tensor);
    return at::_sparse_compressed_tensor_unsafe(result(impl->compressed_indices()),
                                                result(impl->plain_indices()), result(impl->values()),
                                                tensor.sizes(), options);
}

at::Tensor Operands::result(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.device().is_cpu()) return tensor;
    for (const Operand& operand : operands_) {
        if (operand.host.is_same(tensor)) return operand.device;
    }
    if (has_parts(tensor)) return sparse_result(tensor);
    if (!tensor.has_storage()) return tensor;
    for (const c10::StorageImpl* processors : processors_) {
        if (processors == tensor.storage().unsafeGetStorageImpl()) return tensor;
    }
    const auto over = [&](const c10::Storage& storage) {
        return with_storage(tensor, storage, c10::BackendComponent::CPUBit, c10::BackendComponent::CUDABit);
    };
    for (const Storage& storage : storages_) {
        if (storage.host.is_alias_of(tensor.storage())) return over(storage.device);
    }
    c10::Storage device = device_storage(tensor.storage());
    storages_.push_back({device, tensor.storage(), const_cast<void*>(tensor.storage().data())});
    return over(device);
}

}  // namespace gk
