// Launches: the parameters are packed by the layout that came with the load, and posted.
#include "launch.h"

#include <algorithm>
#include <cstring>

#include "call.h"
#include "capture.h"
#include "graphs/platform.h"
#include "launch_buffer.h"
#include "mapped.h"
#include "session.h"
#include "stream_event.h"

namespace client {
namespace {

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
        // The same limit has two causes, and CUDA tells them apart: too few registers, or the kernel's own
        // bound.
        const uint64_t wanted = threads * std::max(0, kernel.attributes[CU_FUNC_ATTRIBUTE_NUM_REGS]);
        const int registers = device.attributes[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK];
        return wanted > static_cast<uint64_t>(registers) ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                                                         : CUDA_ERROR_INVALID_VALUE;
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

graphs::Params node_params(CUfunction function, const Shape& shape, std::span<const std::byte> packed,
                           std::span<const CUlaunchAttribute> attributes) {
    graphs::KernelParams node;
    node.kernel = graphs::platform::kernel(function, nullptr);
    node.func = function;
    std::copy(shape.grid, shape.grid + 3, node.grid);
    std::copy(shape.block, shape.block + 3, node.block);
    node.shared_bytes = shape.shared_bytes;
    node.packed.assign(packed.begin(), packed.end());
    node.attributes.assign(attributes.begin(), attributes.end());
    return node;
}

CUresult launch(CUfunction function, const Shape& shape, CUstream stream, bool per_thread, void** params,
                void** extra, std::span<const CUlaunchAttribute> attributes) {
    Call call;
    if (CUresult error = call.begin()) return error;
    const Kernel* kernel = kernel_of(function);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    uint64_t on = 0;
    if (!call.stream(stream, per_thread, on)) return CUDA_ERROR_INVALID_HANDLE;
    // A module's functions run in its own context; a library's kernels in any.
    if (kernel->context && kernel->context != context_of_stream(on)) return CUDA_ERROR_INVALID_HANDLE;
    std::byte packed[wire::kMaxParamBytes];
    const size_t bytes = kernel->param_bytes;
    if (CUresult error = cuda::pack_parameters(kernel->params, bytes, params, extra, packed)) return error;
    const wire::DeviceSnapshot& device = Session::get().devices()[call.device()];
    if (CUresult error = check_launch(shape, *kernel, device, attributes)) return error;
    if (CUresult error = reach_parameters(call, packed, bytes)) return error;
    auto node = [&] { return node_params(function, shape, {packed, bytes}, attributes); };
    if (auto answer = captured(stream, per_thread, node)) return *answer;
    wire::LaunchHead head = launch_head(shape, *kernel, on, attributes.size());
    wire::LaunchAttribute sent[wire::kMaxLaunchAttributes];
    to_wire(attributes, sent);
    if (CUresult error = call.uses_memory()) return error;
    const iovec parts[3] = {{&head, sizeof head}, {sent, attributes.size() * sizeof *sent}, {packed, bytes}};
    return call.post_parts(wire::kOpLaunch, 0, parts, 3);
}

CUresult launch_with(const CUlaunchConfig* config, CUfunction function, void** params, void** extra,
                     bool per_thread) {
    if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
    const Shape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                      {config->blockDimX, config->blockDimY, config->blockDimZ},
                      config->sharedMemBytes};
    return launch(function, shape, config->hStream, per_thread, params, extra,
                  {config->attrs, config->numAttrs});
}

CUresult launch_cooperative(CUfunction function, const Shape& shape, CUstream stream, bool per_thread,
                            void** params) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    return launch(function, shape, stream, per_thread, params, nullptr, {&attribute, 1});
}

// All blocks of a cooperative launch run at once, so there can be no more than fit.
CUresult check_cooperative(const Shape& shape, const Kernel& kernel, const wire::DeviceSnapshot& device) {
    const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
    const auto threads = static_cast<int>(shape.block[0] * shape.block[1] * shape.block[2]);
    const uint64_t fit = blocks_at_once(device, kernel, threads, shape.shared_bytes);
    return fit == 0 || blocks <= fit ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

CUresult check_attribute(const CUlaunchAttribute& attribute, const Shape& shape, const Kernel& kernel,
                         const wire::DeviceSnapshot& device) {
    if (!can_be_sent(attribute.id)) return CUDA_ERROR_NOT_SUPPORTED;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative) {
        return check_cooperative(shape, kernel, device);
    }
    constexpr int kFirstWithClusters = 9;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
        device.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] < kFirstWithClusters) {
        const auto& cluster = attribute.value.clusterDim;
        const uint64_t blocks = uint64_t{cluster.x} * cluster.y * cluster.z;
        return blocks <= 1 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult check_launch(const Shape& shape, const Kernel& kernel, const wire::DeviceSnapshot& device,
                      std::span<const CUlaunchAttribute> attributes) {
    if (attributes.size() > wire::kMaxLaunchAttributes) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = check_shape(shape, kernel, device)) return error;
    for (const CUlaunchAttribute& attribute : attributes) {
        if (CUresult error = check_attribute(attribute, shape, kernel, device)) return error;
    }
    return CUDA_SUCCESS;
}

void to_wire(std::span<const CUlaunchAttribute> attributes, wire::LaunchAttribute* sent) {
    for (const CUlaunchAttribute& attribute : attributes) {
        *sent = {static_cast<uint32_t>(attribute.id), 0, {}};
        std::memcpy(sent->value, &attribute.value, sizeof sent->value);
        ++sent;
    }
}

wire::LaunchHead launch_head(const Shape& shape, const Kernel& kernel, uint64_t stream,
                             size_t attribute_count) {
    wire::LaunchHead head{};
    head.library = kernel.library;
    head.stream = stream;
    head.kernel = kernel.index;
    std::memcpy(head.grid, shape.grid, sizeof head.grid);
    std::memcpy(head.block, shape.block, sizeof head.block);
    head.shared_bytes = shape.shared_bytes;
    head.attribute_count = static_cast<uint32_t>(attribute_count);
    head.param_bytes = kernel.param_bytes;
    return head;
}

}  // namespace client

using namespace client;

extern "C" {

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
    const Shape shape{{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
    return launch(f, shape, hStream, false, kernelParams, extra, {});
}
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                             unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                             unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                             void** kernelParams, void** extra) {
    const Shape shape{{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
    return launch(f, shape, hStream, true, kernelParams, extra, {});
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
