// The launch API of CUDA's first releases: a function's block shape and parameters are set one by one, and a
// launch takes what is set. Here that is kept for each function and launched by cuLaunchKernel.
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "cuda_abi.h"
#include "launch_buffer.h"

namespace {

struct Settings {
    unsigned block[3] = {1, 1, 1};
    unsigned shared_bytes = 0;
    std::vector<std::byte> params;
};

struct AllSettings {
    std::mutex mutex;
    std::map<CUfunction, Settings> of;
};

// Never destroyed: programs launch from exit handlers.
AllSettings& all() {
    static auto* settings = new AllSettings;
    return *settings;
}

constexpr size_t kMostFunctions = 1 << 16;
constexpr size_t kMostParamBytes = 32764;  // what CUDA allows for all parameters of a kernel

// Runs `change` on the function's settings, under their mutex.
template <class Change>
CUresult change_settings(CUfunction function, Change change) {
    int threads = 0;
    if (CUresult error = cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)) {
        return error;
    }
    const std::lock_guard lock(all().mutex);
    if (all().of.size() >= kMostFunctions && !all().of.contains(function)) return CUDA_ERROR_OUT_OF_MEMORY;
    return change(all().of[function]);
}

CUresult put(CUfunction function, int offset, const void* value, size_t bytes) {
    if (offset < 0 || !value || static_cast<size_t>(offset) + bytes > kMostParamBytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return change_settings(function, [&](Settings& settings) {
        const size_t end = static_cast<size_t>(offset) + bytes;
        if (settings.params.size() < end) settings.params.resize(end);
        std::memcpy(settings.params.data() + offset, value, bytes);
        return CUDA_SUCCESS;
    });
}

CUresult launch(CUfunction function, int width, int height, CUstream stream) {
    if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
    Settings now;
    const CUresult copied = change_settings(function, [&](Settings& settings) {
        now = settings;
        return CUDA_SUCCESS;
    });
    if (copied != CUDA_SUCCESS) return copied;
    cuda::LaunchExtra extra(now.params.data(), now.params.size());
    return cuLaunchKernel(function, static_cast<unsigned>(width), static_cast<unsigned>(height), 1,
                          now.block[0], now.block[1], now.block[2], now.shared_bytes, stream, nullptr,
                          extra.list());
}

}  // namespace

extern "C" {

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
    if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
    return change_settings(hfunc, [&](Settings& settings) {
        settings.block[0] = static_cast<unsigned>(x);
        settings.block[1] = static_cast<unsigned>(y);
        settings.block[2] = static_cast<unsigned>(z);
        return CUDA_SUCCESS;
    });
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
    return change_settings(hfunc, [&](Settings& settings) {
        settings.shared_bytes = bytes;
        return CUDA_SUCCESS;
    });
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
    if (numbytes > kMostParamBytes) return CUDA_ERROR_INVALID_VALUE;
    return change_settings(hfunc, [&](Settings& settings) {
        settings.params.resize(numbytes);
        return CUDA_SUCCESS;
    });
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
    return put(hfunc, offset, &value, sizeof value);
}

CUresult cuParamSetf(CUfunction hfunc, int offset, float value) {
    return put(hfunc, offset, &value, sizeof value);
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void* ptr, unsigned int numbytes) {
    return put(hfunc, offset, ptr, numbytes);
}

CUresult cuLaunch(CUfunction f) {
    return launch(f, 1, 1, nullptr);
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
    return launch(f, grid_width, grid_height, nullptr);
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
    return launch(f, grid_width, grid_height, hStream);
}
}
