// cuGetExportTable refuses every table. Through them NVIDIA's own runtimes make the driver prove that it is
// genuine; ours is not, and says so. A program that then fails does not say why, so its user is told here, in
// one line for each object that asks.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "cuda_abi.h"
#include "image_texts.h"

namespace {

// They ask, and work without an answer: compilers and linkers, tools that only watch, and NVIDIA's NVML.
constexpr std::string_view kTolerant[] = {"libnvrtc",    "libnvJitLink", "libnvvm",
                                          "libnvfatbin", "libcupti",     "libnvidia-ml"};

// NVIDIA's libraries that carry a copy of the static runtime: nobody here can link them again.
constexpr std::string_view kCarriers[] = {"libcublas",   "libcudnn",    "libcufft",    "libcurand",
                                          "libcusolver", "libcusparse", "libnccl",     "libnvshmem",
                                          "libnpp",      "libnvjpeg",   "libcutensor", "libcudss"};

// Python's packages of which more is known than that: what helps is said once for all of their files.
struct Package {
    std::string_view folder, text;
    bool seems_to_work;  // until it asks: it is told of when it looks for the driver's functions
    std::atomic_flag told;
};
Package packages[] = {
    {"-packages/cupy",
     "CuPy's wheel contains NVIDIA's CUDA runtime, which works with NVIDIA's driver only, so CuPy's "
     "calls fail here (cudaErrorSymbolNotFound). Built from source it can use the one that works here: "
     "docs/how-to/build-cupy.md",
     false,
     {}},
    {"-packages/libcudf/",
     "cuDF's wheel contains NVIDIA's CUDA runtime, which works with NVIDIA's driver only: cuDF cannot be "
     "used on a GPU that is elsewhere. numba, PyTorch and JAX can",
     false,
     {}},
    {"-packages/warp/",
     "Warp's wheel contains NVIDIA's CUDA runtime, which works with NVIDIA's driver only: Warp lists this "
     "GPU, but can allocate and compute nothing on it. Use its device 'cpu'; numba, PyTorch and Triton can "
     "use the GPU",
     true,
     {}},
    {"-packages/cuda/compute/",
     "cuda.compute's wheel (cuda-cccl) contains NVIDIA's CUDA runtime, which works with NVIDIA's driver "
     "only, so its algorithms fail here. numba, cuda.core, and Thrust and CUB in CUDA C++ can use this GPU",
     false,
     {}},
};
constexpr std::string_view kInstalled = "-packages/";

template <size_t count>
bool starts_with_one_of(std::string_view name, const std::string_view (&prefixes)[count]) {
    for (std::string_view prefix : prefixes) {
        if (name.starts_with(prefix)) return true;
    }
    return false;
}

Package* package_of(std::string_view path) {
    for (Package& package : packages) {
        if (path.find(package.folder) != path.npos) return &package;
    }
    return nullptr;
}

// What the user can do about the object at `path`; empty when there is nothing to tell.
std::string advice(std::string_view path) {
    const std::string_view name = path.substr(path.rfind('/') + 1);
    if (starts_with_one_of(name, kTolerant)) return {};
    if (Package* package = package_of(path)) {
        return package->told.test_and_set() ? std::string() : std::string(package->text);
    }
    const std::string object(path);
    if (name.starts_with("libcudart.so")) {
        return object +
               " is NVIDIA's own CUDA runtime, which works with NVIDIA's driver only. Something opened it by "
               "its "
               "path: open libcudart.so." +
               (name.find(".so.12") != name.npos ? "12" : "13") +
               " by its name alone to get the one that works here";
    }
    if (starts_with_one_of(name, kCarriers)) {
        return object +
               " contains a copy of NVIDIA's CUDA runtime, which works with NVIDIA's driver only: this "
               "library "
               "cannot be used on a GPU that is elsewhere";
    }
    if (path.find(kInstalled) != path.npos) {
        return object +
               " contains a copy of NVIDIA's CUDA runtime, which works with NVIDIA's driver only: the "
               "package that it came with cannot be used on this GPU" +
               std::string(cuda::kOtherPackages);
    }
    return object +
           " was linked with NVIDIA's static CUDA runtime, which works with NVIDIA's driver only. Link it "
           "again "
           "with the shared one: nvcc -cudart shared";
}

// Whether the object loaded at `base` has been told of. A runtime asks for several tables; a handful of
// objects is remembered, and more than that stay silent.
bool told(const void* base) {
    static std::atomic<const void*> known[16];
    for (auto& slot : known) {
        const void* expected = nullptr;
        if (slot.compare_exchange_strong(expected, base)) return false;
        if (expected == base) return true;
    }
    return true;
}

}  // namespace

void gk_tell_of_package(const void* caller) {
    Dl_info asking;
    if (!dladdr(caller, &asking) || !asking.dli_fname) return;
    const Package* package = package_of(asking.dli_fname);
    if (!package || !package->seems_to_work) return;
    if (const std::string text = advice(asking.dli_fname); !text.empty()) gk_tell_user(text.c_str());
}

extern "C" CUresult cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
    if (!ppExportTable || !pExportTableId) return CUDA_ERROR_INVALID_VALUE;
    *ppExportTable = nullptr;
    Dl_info asking;
    if (dladdr(__builtin_return_address(0), &asking) && asking.dli_fname && !told(asking.dli_fbase)) {
        if (const std::string text = advice(asking.dli_fname); !text.empty()) gk_tell_user(text.c_str());
    }
    return CUDA_ERROR_NOT_FOUND;
}
