// The port's part about kernels. Each backend defines these functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "cuda_abi.h"

namespace front::platform {

// A kernel as a handle finds it: throws INVALID_HANDLE for what is none.
class Kernel {
  public:
    explicit Kernel(CUkernel handle);    // of a library
    explicit Kernel(CUfunction handle);  // in the calling thread's context, which works; or a CUkernel, there

    const char* name() const;  // readable as long as the library is loaded

    struct Parameter {
        size_t offset = 0, bytes = 0;
    };
    std::optional<Parameter> parameter(size_t index) const;

    std::optional<int> attribute(CUfunction_attribute attribute) const;
    void set(CUfunction_attribute attribute, int value, CUdevice device) const;  // to what it can be

  private:
    std::shared_ptr<void> object_;  // the backend's own
};

CUlibrary library_of(CUkernel kernel);
CUmodule module_of(CUfunction function);
CUfunction function_of(CUkernel kernel);  // in the calling thread's context, which works

}  // namespace front::platform
