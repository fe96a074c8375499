#include <string>

#include "cuda_abi.h"
#include "log.h"

// The hook of the generated stubs.
extern "C" void gk_unsupported(const char* name) {
    client::log_line(std::string(name) + " is not supported yet; it returns CUDA_ERROR_NOT_SUPPORTED");
}
