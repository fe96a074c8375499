#include "life.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

namespace gk {
namespace {

// How many lives the process has ended. Only the forwarding client has it: a software GPU of the process's
// own lives as long as the process.
using LivesEnded = unsigned long long (*)(int* state);

LivesEnded lives_ended() {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver ? reinterpret_cast<LivesEnded>(dlsym(driver, "gkLife")) : nullptr;
}

}  // namespace

void require_first_life() {
    static const LivesEnded ended = lives_ended();
    static const unsigned long long at_first = ended ? ended(nullptr) : 0;
    TORCH_CHECK(!ended || ended(nullptr) == at_first,
                "gpu-kernels: PyTorch cannot go on with another slice: restart the kernel before you use it "
                "again (menu Kernel, Restart Kernel)");
}

}  // namespace gk
