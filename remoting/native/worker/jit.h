// JIT options as a driver takes them: numbers from the client, log buffers of our own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cuda_abi.h"
#include "payload.h"
#include "protocol.h"

namespace worker {

class JitOptions {
  public:
    // Takes `count` options off the payload. False when they are not what a client sends.
    bool take(wire::Reader& payload, uint32_t count, uint32_t info_log_bytes, uint32_t error_log_bytes);

    // The first option that is none of the allowlist; the driver must not be asked then.
    std::optional<uint32_t> refused() const { return refused_; }

    CUjit_option* names() { return names_.data(); }
    void** values() { return values_.data(); }
    unsigned count() const { return static_cast<unsigned>(names_.size()); }

    // What the driver has written.
    std::string_view info_log() const;
    std::string_view error_log() const;

  private:
    void add(CUjit_option option, void* value);
    void add_log(std::vector<char>& buffer, uint32_t bytes, CUjit_option text, CUjit_option size);

    std::vector<CUjit_option> names_;
    std::vector<void*> values_;
    std::vector<char> info_, error_;
    std::optional<uint32_t> refused_;
};

}  // namespace worker
