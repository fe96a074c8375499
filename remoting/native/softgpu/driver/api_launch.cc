// Entry points: launches.
#include "capture.h"
#include "driver.h"
#include "graphs/platform.h"
#include "launch.h"
#include "launch_buffer.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

graphs::Params node_params(CUfunction f, const LaunchRequest& request, std::vector<std::byte> packed,
                           std::span<const CUlaunchAttribute> attributes) {
    graphs::KernelParams params{.kernel = graphs::platform::kernel(f, nullptr),
                                .func = f,
                                .grid = {request.grid.x, request.grid.y, request.grid.z},
                                .block = {request.block.x, request.block.y, request.block.z},
                                .shared_bytes = request.dynamic_shared,
                                .packed = std::move(packed)};
    params.attributes.assign(attributes.begin(), attributes.end());
    graphs::platform::check(params);
    return params;
}

CUresult launch(CUfunction f, CUstream hStream, const LaunchRequest& request, void** params, void** extra,
                std::span<const CUlaunchAttribute> attributes = {}) {
    return context_call([&](Context& context) {
        const auto stream = context.stream(hStream);
        const auto function = find_function(*stream->context, f);
        require(function->module->context == stream->context, CUDA_ERROR_INVALID_HANDLE);
        const KernelInfo& info = function->info();
        std::vector<std::byte> packed(info.param_bytes);
        check(cuda::pack_parameters(info.params, packed.size(), params, extra, packed.data()));
        if (captured(*stream, [&] { return node_params(f, request, std::move(packed), attributes); })) return;
        stream->context->driver.scheduler.submit(
            stream->queue, {.body = prepare_launch(function, request, std::move(packed))});
    });
}

}  // namespace

// Attributes that say how a GPU should schedule change nothing here; what would change the meaning of the
// launch is refused.
bool softgpu::driver::cooperative(const CUlaunchConfig& config) {
    require(config.attrs != nullptr || config.numAttrs == 0);
    bool cooperative = false;
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        const CUlaunchAttribute& attribute = config.attrs[i];
        switch (attribute.id) {
            case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
                cooperative = attribute.value.cooperative != 0;
                break;
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
                const auto& cluster = attribute.value.clusterDim;
                require(uint64_t{cluster.x} * cluster.y * cluster.z <= 1, CUDA_ERROR_NOT_SUPPORTED);
                break;
            }
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
            case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
                refuse(CUDA_ERROR_NOT_SUPPORTED);
            default:
                break;
        }
    }
    return cooperative;
}

extern "C" {

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
    return launch(f, hStream,
                  {.grid = {gridDimX, gridDimY, gridDimZ},
                   .block = {blockDimX, blockDimY, blockDimZ},
                   .dynamic_shared = sharedMemBytes},
                  kernelParams, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
    return driver_call([&](Driver&) {
        require(config != nullptr);
        return launch(f, config->hStream,
                      {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                       .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                       .dynamic_shared = config->sharedMemBytes,
                       .cooperative = cooperative(*config)},
                      kernelParams, extra, {config->attrs, config->numAttrs});
    });
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                   unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                   void** kernelParams) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    return launch(f, hStream,
                  {.grid = {gridDimX, gridDimY, gridDimZ},
                   .block = {blockDimX, blockDimY, blockDimZ},
                   .dynamic_shared = sharedMemBytes,
                   .cooperative = true},
                  kernelParams, nullptr, {&attribute, 1});
}
}
