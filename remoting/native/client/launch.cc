// Launches: the parameters are packed by the layout that came with the load, and posted.
#include <algorithm>
#include <cstring>

#include "call.h"
#include "library.h"
#include "session.h"

namespace client {
namespace {

struct Shape {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
};

// What CUDA refuses at once is refused here, so that the error appears at the launch and not later.
CUresult check_shape(const Shape& shape, const Kernel& kernel, const wire::DeviceSnapshot& device) {
    uint64_t threads = 1;
    for (int i = 0; i < 3; ++i) {
        const int block_limit = device.attributes[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i];
        const int grid_limit = device.attributes[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i];
        if (shape.grid[i] == 0 || shape.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
        if (shape.grid[i] > static_cast<uint32_t>(grid_limit)) return CUDA_ERROR_INVALID_VALUE;
        if (shape.block[i] > static_cast<uint32_t>(block_limit)) return CUDA_ERROR_INVALID_VALUE;
        threads *= shape.block[i];
    }
    const int device_limit = device.attributes[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    if (threads > static_cast<uint64_t>(device_limit)) return CUDA_ERROR_INVALID_VALUE;
    const int kernel_limit = kernel.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    if (kernel_limit > 0 && threads > static_cast<uint64_t>(kernel_limit)) {
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    // Above the ordinary limit a kernel must have opted in.
    const int opted_in = kernel.attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
    const int ordinary = device.attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] -
                         std::max(0, kernel.attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]);
    if (shape.shared_bytes > static_cast<uint32_t>(std::max({0, opted_in, ordinary}))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

// Attributes that hold numbers only. Those with events or addresses have no meaning on the other side.
bool can_be_sent(CUlaunchAttributeID id) {
    switch (id) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            return true;
        default:
            return false;
    }
}

// Packs what `params` or `extra` give into `packed`, which holds kernel.param_bytes.
CUresult pack(const Kernel& kernel, void** params, void** extra, std::byte* packed) {
    if (params) {
        for (size_t i = 0; i < kernel.params.size(); ++i) {
            if (!params[i]) return CUDA_ERROR_INVALID_VALUE;
            std::memcpy(packed + kernel.params[i].offset, params[i], kernel.params[i].bytes);
        }
        return CUDA_SUCCESS;
    }
    if (!extra) return kernel.params.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    const void* buffer = nullptr;
    size_t bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = extra[1];
        } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
            bytes = *static_cast<const size_t*>(extra[1]);
        } else {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (bytes < kernel.param_bytes || (!buffer && kernel.param_bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (kernel.param_bytes) std::memcpy(packed, buffer, kernel.param_bytes);
    return CUDA_SUCCESS;
}

CUresult launch(CUfunction function, const Shape& shape, CUstream stream, bool per_thread, void** params,
                void** extra, const CUlaunchAttribute* attributes, unsigned attribute_count) {
    Call call;
    if (CUresult error = call.begin()) return error;
    const Kernel* kernel = kernel_of(function);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    wire::LaunchHead head{};
    if (!call.stream(stream, per_thread, head.stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (params && extra) return CUDA_ERROR_INVALID_VALUE;
    if (attribute_count > wire::kMaxLaunchAttributes) return CUDA_ERROR_INVALID_VALUE;
    const wire::DeviceSnapshot& device = Session::get().devices()[call.device()];
    if (CUresult error = check_shape(shape, *kernel, device)) return error;
    wire::LaunchAttribute sent[wire::kMaxLaunchAttributes];
    for (unsigned i = 0; i < attribute_count; ++i) {
        if (!can_be_sent(attributes[i].id)) return CUDA_ERROR_NOT_SUPPORTED;
        sent[i] = {static_cast<uint32_t>(attributes[i].id), 0, {}};
        std::memcpy(sent[i].value, &attributes[i].value, sizeof sent[i].value);
    }
    head.library = kernel->library;
    head.kernel = kernel->index;
    std::memcpy(head.grid, shape.grid, sizeof head.grid);
    std::memcpy(head.block, shape.block, sizeof head.block);
    head.shared_bytes = shape.shared_bytes;
    head.attribute_count = attribute_count;
    head.param_bytes = kernel->param_bytes;
    std::byte packed[wire::kMaxParamBytes];
    std::memset(packed, 0, kernel->param_bytes);  // the gaps, too, are sent
    if (CUresult error = pack(*kernel, params, extra, packed)) return error;
    call.uses_memory();
    const iovec parts[3] = {
        {&head, sizeof head}, {sent, attribute_count * sizeof *sent}, {packed, kernel->param_bytes}};
    return call.post_parts(wire::kOpLaunch, 0, parts, 3);
}

CUresult launch_with(const CUlaunchConfig* config, CUfunction function, void** params, void** extra,
                     bool per_thread) {
    if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
    const Shape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                      {config->blockDimX, config->blockDimY, config->blockDimZ},
                      config->sharedMemBytes};
    return launch(function, shape, config->hStream, per_thread, params, extra, config->attrs,
                  config->numAttrs);
}

CUresult launch_cooperative(CUfunction function, const Shape& shape, CUstream stream, bool per_thread,
                            void** params) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    return launch(function, shape, stream, per_thread, params, nullptr, &attribute, 1);
}

}  // namespace
}  // namespace client

using namespace client;

extern "C" {

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
    const Shape shape{{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
    return launch(f, shape, hStream, false, kernelParams, extra, nullptr, 0);
}
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                             unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                             unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                             void** kernelParams, void** extra) {
    const Shape shape{{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
    return launch(f, shape, hStream, true, kernelParams, extra, nullptr, 0);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
    return launch_with(config, f, kernelParams, extra, false);
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                               void** extra) {
    return launch_with(config, f, kernelParams, extra, true);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                   unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                   void** kernelParams) {
    const Shape shape{{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
    return launch_cooperative(f, shape, hStream, false, kernelParams);
}
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                        void** kernelParams) {
    const Shape shape{{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
    return launch_cooperative(f, shape, hStream, true, kernelParams);
}
}
