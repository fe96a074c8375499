// Libraries (and modules, which are the same here) and their kernels. All that a program asks of them came
// with the reply to the load.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda_abi.h"
#include "handles.h"
#include "protocol.h"

namespace client {

class Call;

struct Kernel {
    uint64_t library = 0;
    uint64_t context = 0;  // of its module
    uint32_t index = 0;
    uint8_t device = 0;
    uint32_t param_bytes = 0;
    std::vector<wire::ParamRow> params;
    std::shared_ptr<const std::string> name;
    int32_t attributes[wire::kFunctionAttributes] = {};
};

struct Library {
    uint64_t context = 0;  // id of the one that a module belongs to; a library belongs to none
    uint8_t device = 0;
    std::map<std::string, uint64_t, std::less<>> kernels;  // name to handle
    std::vector<uint64_t> in_order;
    std::map<std::string, std::string, std::less<>> refused;  // kernels that do not run: name to why
    // Address and bytes, once asked, of each device.
    std::map<std::string, std::pair<uint64_t, uint64_t>, std::less<>> globals[wire::kMaxDevices];
};

HandleTable<Library>& libraries();
HandleTable<Kernel>& kernels();

// A CUkernel or CUfunction: both are kernels here. Null when it is not one.
inline Kernel* kernel_of(const void* handle) {
    return kernels().find(reinterpret_cast<uint64_t>(handle));
}

// A context begins: the variables of libraries have their first values again.
CUresult reset_libraries(uint8_t device);
// Takes the context's modules off the tables; their handles.
std::vector<uint64_t> take_modules(uint64_t context);
void forget_libraries();
// Makes sure that the worker has the bytes, under their digest.
CUresult upload_image(Call& call, const wire::Digest& digest, std::span<const std::byte> image);

}  // namespace client
