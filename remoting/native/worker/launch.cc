#include <cstring>

#include "allowlists.h"
#include "graph.h"

namespace worker {
namespace {

bool find_kernel(Context& context, uint64_t library, uint32_t index, std::shared_ptr<LoadedLibrary>& loaded,
                 const LoadedKernel*& kernel) {
    if (!context.session().libraries.find(library, loaded) || index >= loaded->kernels.size()) return false;
    kernel = &loaded->kernels[index];
    return true;
}

CUresult launch(Context& context, LaunchRequest& request, CUstream stream) {
    const wire::LaunchHead& head = request.head;
    cuda::LaunchExtra extra = request.extra();
    const auto function = reinterpret_cast<CUfunction>(request.kernel->handle);
    const auto in_one_piece = static_cast<void**>(nullptr);
    if (head.attribute_count == 0) {
        return invoke(context.driver().cuLaunchKernel, function, head.grid[0], head.grid[1], head.grid[2],
                      head.block[0], head.block[1], head.block[2], head.shared_bytes, stream, in_one_piece,
                      extra.list());
    }
    CUlaunchConfig config{};
    config.gridDimX = head.grid[0];
    config.gridDimY = head.grid[1];
    config.gridDimZ = head.grid[2];
    config.blockDimX = head.block[0];
    config.blockDimY = head.block[1];
    config.blockDimZ = head.block[2];
    config.sharedMemBytes = head.shared_bytes;
    config.hStream = stream;
    config.attrs = request.attributes;
    config.numAttrs = head.attribute_count;
    return invoke(context.driver().cuLaunchKernelEx, static_cast<const CUlaunchConfig*>(&config), function,
                  in_one_piece, extra.list());
}

}  // namespace

CUresult LaunchRequest::take(Context& context, wire::Reader& payload) {
    if (!payload.take(head) || head.attribute_count > wire::kMaxLaunchAttributes) return kMalformed;
    for (uint32_t i = 0; i < head.attribute_count; ++i) {
        wire::LaunchAttribute sent;
        if (!payload.take(sent)) return kMalformed;
        attributes[i] = {};
        attributes[i].id = static_cast<CUlaunchAttributeID>(sent.id);
        const auto bytes = launch_attribute_bytes(sent.id);
        if (!bytes) return kMalformed;
        std::memcpy(&attributes[i].value, sent.value, *bytes);
    }
    if (!payload.take_bytes(head.param_bytes, params)) return kMalformed;
    if (!find_kernel(context, head.library, head.kernel, library, kernel)) return CUDA_ERROR_INVALID_HANDLE;
    if (params.size() != kernel->param_bytes) return kMalformed;
    return context.worker().local_memory.make_room(context, *kernel);
}

CUresult handle_launch(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    LaunchRequest request;
    if (CUresult error = request.take(context, payload)) return error;
    CUstream stream;
    if (!payload.finished()) return kMalformed;
    if (!context.stream(request.head.stream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    context.worker().status.launches.fetch_add(1, std::memory_order_relaxed);
    context.session().has_launched.store(true, std::memory_order_relaxed);
    return launch(context, request, stream);
}

CUresult handle_set_attribute(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::FunctionAttribute message;
    if (!payload.take(message) || !payload.finished()) return kMalformed;
    if (!function_attribute_allowed(message.attribute)) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedLibrary> library;
    const LoadedKernel* kernel = nullptr;
    if (!find_kernel(context, message.library, message.kernel, library, kernel))
        return CUDA_ERROR_INVALID_HANDLE;
    return invoke(context.driver().cuKernelSetAttribute, static_cast<CUfunction_attribute>(message.attribute),
                  message.value, kernel->handle, context.worker().devices[context.device()].handle);
}

}  // namespace worker
