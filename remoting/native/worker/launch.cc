#include <cstring>

#include "handlers.h"

namespace worker {
namespace {

bool find_kernel(Context& context, uint64_t library, uint32_t index, std::shared_ptr<LoadedLibrary>& loaded,
                 const LoadedKernel*& kernel) {
    if (!context.session().libraries.find(library, loaded) || index >= loaded->kernels.size()) return false;
    kernel = &loaded->kernels[index];
    return true;
}

CUresult launch(Context& context, const wire::LaunchHead& head, const LoadedKernel& kernel, CUstream stream,
                CUlaunchAttribute* attributes, const std::byte* params) {
    // The driver copies the parameters before it returns.
    std::vector<void*> pointers(kernel.params.size());
    for (size_t i = 0; i < pointers.size(); ++i) {
        pointers[i] = const_cast<std::byte*>(params + kernel.params[i].offset);
    }
    const auto function = reinterpret_cast<CUfunction>(kernel.handle);
    void** arguments = pointers.empty() ? nullptr : pointers.data();
    if (head.attribute_count == 0) {
        return invoke(context.driver().cuLaunchKernel, function, head.grid[0], head.grid[1], head.grid[2],
                      head.block[0], head.block[1], head.block[2], head.shared_bytes, stream, arguments,
                      static_cast<void**>(nullptr));
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
    config.attrs = attributes;
    config.numAttrs = head.attribute_count;
    return invoke(context.driver().cuLaunchKernelEx, static_cast<const CUlaunchConfig*>(&config), function,
                  arguments, static_cast<void**>(nullptr));
}

}  // namespace

CUresult handle_launch(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::LaunchHead head;
    if (!payload.take(head) || head.attribute_count > wire::kMaxLaunchAttributes) return kMalformed;
    CUlaunchAttribute attributes[wire::kMaxLaunchAttributes];
    for (uint32_t i = 0; i < head.attribute_count; ++i) {
        wire::LaunchAttribute sent;
        if (!payload.take(sent)) return kMalformed;
        attributes[i] = {};
        attributes[i].id = static_cast<CUlaunchAttributeID>(sent.id);
        // These hold handles of the driver; our client does not send them.
        if (sent.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
            sent.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ||
            sent.id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE) {
            return kMalformed;
        }
        std::memcpy(&attributes[i].value, sent.value, sizeof sent.value);
    }
    std::span<const std::byte> params;
    if (!payload.take_bytes(head.param_bytes, params) || !payload.finished()) return kMalformed;
    std::shared_ptr<LoadedLibrary> library;
    const LoadedKernel* kernel = nullptr;
    CUstream stream;
    if (!find_kernel(context, head.library, head.kernel, library, kernel)) return CUDA_ERROR_INVALID_HANDLE;
    if (!context.stream(head.stream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (params.size() != kernel->param_bytes) return kMalformed;
    context.worker().status.launches.fetch_add(1, std::memory_order_relaxed);
    return launch(context, head, *kernel, stream, attributes, params.data());
}

CUresult handle_set_attribute(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::FunctionAttribute message;
    if (!payload.take(message) || !payload.finished()) return kMalformed;
    std::shared_ptr<LoadedLibrary> library;
    const LoadedKernel* kernel = nullptr;
    if (!find_kernel(context, message.library, message.kernel, library, kernel))
        return CUDA_ERROR_INVALID_HANDLE;
    return invoke(context.driver().cuKernelSetAttribute, static_cast<CUfunction_attribute>(message.attribute),
                  message.value, kernel->handle, context.worker().devices[context.device()].handle);
}

// A replay launches its kernels too: a program that does nothing else is not idle.
CUresult run_cuGraphLaunch(Context& context, uint8_t, const wire::cuGraphLaunch_message& message,
                           wire::Writer&) {
    CUgraphExec exec;
    CUstream stream;
    if (!context.exec(message.hGraph, exec) || !context.stream(message.hStream, stream))
        return CUDA_ERROR_INVALID_HANDLE;
    context.worker().status.launches.fetch_add(1, std::memory_order_relaxed);
    return invoke(context.driver().cuGraphLaunch, exec, stream);
}

}  // namespace worker
