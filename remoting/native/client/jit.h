// JIT options of a load or a link: numbers go to the worker, logs come back into the caller's buffers.
#pragma once

#include <span>
#include <vector>

#include "cuda_abi.h"
#include "payload.h"
#include "protocol.h"

namespace client {

class JitOptions {
  public:
    // CUDA_ERROR_NOT_SUPPORTED for an option that holds pointers which the worker cannot follow.
    CUresult add(unsigned count, const CUjit_option* options, void** values);

    std::span<const wire::JitOption> numbers() const { return numbers_; }
    uint32_t info_log_bytes() const { return static_cast<uint32_t>(info_bytes_); }
    uint32_t error_log_bytes() const { return static_cast<uint32_t>(error_bytes_); }

    // Takes both logs off the reply and writes them, with the sizes, where the caller asked. False when the
    // reply is not well formed.
    bool take_logs(wire::Reader& reply, uint32_t info_bytes, uint32_t error_bytes);

  private:
    std::vector<wire::JitOption> numbers_;
    char* info_ = nullptr;
    char* error_ = nullptr;
    size_t info_bytes_ = 0, error_bytes_ = 0;
    void** info_size_out_ = nullptr;
    void** error_size_out_ = nullptr;
};

}  // namespace client
