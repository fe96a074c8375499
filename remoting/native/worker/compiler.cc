#include "compiler.h"

#include "protocol.h"

namespace worker {

CUresult compile_text(const Driver& driver, const std::string& text, JitOptions& options,
                      std::string& cubin) {
    CUlinkState state;
    if (CUresult error =
            invoke(driver.cuLinkCreate_v2, options.count(), options.names(), options.values(), &state)) {
        return error;
    }
    void* image = nullptr;
    size_t bytes = 0;
    // With the NUL that stands behind it.
    CUresult result = invoke(driver.cuLinkAddData_v2, state, CU_JIT_INPUT_PTX,
                             const_cast<void*>(static_cast<const void*>(text.c_str())), text.size() + 1,
                             "text", 0u, static_cast<CUjit_option*>(nullptr), static_cast<void**>(nullptr));
    if (result == CUDA_SUCCESS) result = invoke(driver.cuLinkComplete, state, &image, &bytes);
    if (result == CUDA_SUCCESS && bytes > wire::kMaxImage) result = CUDA_ERROR_INVALID_IMAGE;
    if (result == CUDA_SUCCESS) cubin.assign(static_cast<const char*>(image), bytes);
    invoke(driver.cuLinkDestroy, state);
    return result;
}

}  // namespace worker
