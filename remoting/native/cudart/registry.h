// What the program's objects have registered: their device code, and which host address stands for which
// kernel and variable in it.
//
// nvcc's output registers everything before main; nothing is loaded then. An image is loaded as a library of
// the driver, which belongs to no context, with the first use of something in it; the driver makes it present
// in each context. An image stays loaded until its object is unloaded (dlclose), through resets of the device
// too.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "driver.h"

namespace cudart {

struct FatBinary;

struct Kernel {
    FatBinary* binary;
    const void* host;  // the address that stands for it in the program
    std::string name;
    Kept<CUkernel> handle{};
};

struct Variable {
    FatBinary* binary;
    const void* host;
    std::string name;
    size_t bytes;
};

struct ManagedVariable {
    void** pointer;  // where the program wants the variable's address
    std::string name;
    size_t bytes;
};

// The kernel or function that `entry` stands for: a registered host address, or a handle of the driver's. In
// `function` as the driver takes it for a launch. cudaErrorInvalidDeviceFunction when it is neither; the
// load's error when that fails.
cudaError_t find_function(const Driver& driver, const void* entry, CUfunction& function);

// As find_function, and always a function of the current context, which other calls than a launch want.
cudaError_t find_context_function(const Driver& driver, const void* entry, CUfunction& function);

// The kernel that a registered host address stands for.
cudaError_t find_kernel(const Driver& driver, const void* entry, CUkernel& kernel);

// The host address that stands for what find_function or find_context_function has given; the handle itself
// where there is none.
void* host_address(CUfunction function);

// `bytes` at `offset` of a registered variable, in the current context.
cudaError_t find_part(const Driver& driver, const void* symbol, size_t offset, size_t bytes, void*& address);

// Where a registered variable is in the current context. cudaErrorInvalidSymbol when nothing is registered
// for `symbol`.
cudaError_t find_variable(const Driver& driver, const void* symbol, CUdeviceptr& address, size_t& bytes);

}  // namespace cudart
