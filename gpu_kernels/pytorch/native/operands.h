// Tensors of the device as tensors of the processor, for one call of an operator, and back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>

#include "slice_memory.h"

namespace gk {

// What an operator does with an operand's bytes.
enum class Use {
    kRead,       // and no more
    kChange,     // it may read and write them
    kOverwrite,  // it reads none
};

// Where an operand may be.
enum class Where {
    kOnDevice,  // the operator's; what is only read and has no dimensions may be the processor's
    kAnywhere,
};

class Operands {
  public:
    explicit Operands(const SliceMemory& memory) : memory_(memory) {}

    // Where the operator runs. The first tensor or device of the arguments that is the device's decides, else
    // the current device; all that was queued on its current stream has run then. Throws where that stream
    // captures a graph, and what the queued work failed with.
    void begin(c10::Device device, const char* name);

    // The processor's tensor over the same bytes; others than the device's are themselves. Throws in
    // PyTorch's words where the tensor is on another device than it may be.
    at::Tensor lend(const at::Tensor& tensor, Use use, Where where);
    c10::DispatchKeySet keys() const { return keys_; }

    // The operator is done: what it wrote, resized or moved of the operands becomes the device's.
    void give_back();
    // The device's tensor for a result.
    at::Tensor result(const at::Tensor& tensor);

  private:
    struct Storage {
        c10::Storage device, host;
        void* lent;
    };
    struct Operand {
        at::Tensor device, host;
        Use use;
    };
    void require_place(const at::Tensor& tensor, Use use) const;
    void wait_for(c10::Device device) const;
    at::Tensor lend(const at::Tensor& tensor, Use use);
    c10::Storage lend(const c10::Storage& storage);
    at::Tensor lend_dense(const at::Tensor& tensor, Use use);
    at::Tensor lend_sparse(const at::Tensor& tensor, Use use);
    void give_back(const Operand& operand);
    void give_back_sparse(const Operand& operand);
    at::Tensor sparse_result(const at::Tensor& tensor);
    // The device's storage for one of the processor's: moved there, or copied.
    c10::Storage device_storage(const c10::Storage& host);
    const c10::Stream& stream() const { return *stream_; }

    const SliceMemory& memory_;
    std::optional<c10::Stream> stream_;
    c10::DispatchKeySet keys_ = c10::DispatchKeySet(c10::DispatchKey::CPU);
    c10::SmallVector<Storage, 4> storages_;
    c10::SmallVector<Operand, 4> operands_;
    // The processor's own tensors among the operands: a result may be one of them.
    c10::SmallVector<c10::StorageImpl*, 2> processors_;
};

}  // namespace gk
