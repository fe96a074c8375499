// What graphs/platform.h wants of this driver.
#include "capture.h"
#include "copy.h"
#include "graph_replay.h"
#include "launch.h"
#include "stream_call.h"

namespace softgpu::driver {
namespace {

struct GraphKernel : graphs::Kernel {
    std::shared_ptr<Function> function;
};

bool is_cooperative(const graphs::KernelParams& params) {
    CUlaunchConfig config{};
    config.attrs = const_cast<CUlaunchAttribute*>(params.attributes.data());
    config.numAttrs = static_cast<unsigned>(params.attributes.size());
    return cooperative(config);
}

std::function<CUresult()> body_of(const graphs::KernelParams& params) {
    const auto& kernel = static_cast<const GraphKernel&>(*params.kernel);
    return prepare_launch(kernel.function,
                          {.grid = {params.grid[0], params.grid[1], params.grid[2]},
                           .block = {params.block[0], params.block[1], params.block[2]},
                           .dynamic_shared = params.shared_bytes,
                           .cooperative = is_cooperative(params)},
                          params.packed);
}

Fill fill_of_node(const CUDA_MEMSET_NODE_PARAMS_v2& p) {
    return fill_of(*live().current(), p.dst, p.pitch, p.value, p.elementSize, p.width, p.height);
}

StepWork work(const graphs::KernelParams& params) {
    return {.body = body_of(params)};
}
StepWork work(const graphs::CopyParams& params) {
    return {.body = copy_body(copy_of(*live().current(), params.copy))};
}
StepWork work(const graphs::FillParams& params) {
    return {.body = fill_body(fill_of_node(params.fill))};
}
StepWork work(const graphs::HostParams& params) {
    auto call = [params] {
        params.fn(params.data);
        return CUDA_SUCCESS;
    };
    return {.body = call, .calls_program = true};
}
StepWork work(const graphs::RecordParams& params) {
    return {.record = live().handles.get<Event>(params.event)};
}
StepWork work(const graphs::WaitParams& params) {
    return {.wait = live().handles.get<Event>(params.event)};
}
// Memory of graphs is there as long as they are; a child graph was dissolved.
StepWork work(const graphs::EmptyParams&) {
    return {};
}
StepWork work(const graphs::AllocParams&) {
    return {};
}
StepWork work(const graphs::FreeParams&) {
    return {};
}
StepWork work(const graphs::ChildParams&) {
    return {};
}

}  // namespace

StepWork work_of(const graphs::Node& node) {
    return std::visit([](const auto& params) { return work(params); }, node.params);
}

}  // namespace softgpu::driver

namespace graphs::platform {

using namespace softgpu;
using namespace softgpu::driver;

void tell(std::span<const std::function<void()>> told) {
    for (const auto& one : told) one();
}

CUresult ready() {
    return Driver::live() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

void require_context() {
    graphs::check(live().current()->status());
}

graphs::Stream stream(CUstream handle) {
    const auto found = working_stream(live(), handle);
    graphs::Stream stream = as_captured(*found);
    stream.object = found;
    return stream;
}

uint64_t event(CUevent handle) {
    return key_of(*live().handles.get<Event>(handle));
}

std::shared_ptr<const Kernel> kernel(CUfunction func, CUkernel kern) {
    auto kernel = std::make_shared<GraphKernel>();
    const auto named = func ? func : reinterpret_cast<CUfunction>(kern);
    kernel->function = find_function(*live().current(), named);
    const KernelInfo& info = kernel->function->info();
    for (const auto& param : info.params) kernel->params.push_back({param.offset, param.bytes});
    kernel->param_bytes = info.param_bytes;
    return kernel;
}

void check(const KernelParams& params) {
    body_of(params);
}
void check(const CopyParams& params) {
    copy_of(*live().current(), params.copy);
}
void check(const FillParams& params) {
    fill_of_node(params.fill);
}

void require_device(CUdevice device) {
    driver::require_device(device);
}
uint8_t device() {
    return static_cast<uint8_t>(live().current()->device);
}

CUdeviceptr allocate(uint8_t, size_t bytes) {
    const auto context = live().current();
    return context->driver.memory.allocate(*context, bytes, Place::pool);
}

void free(uint8_t, CUdeviceptr address) noexcept {
    // Its context may have gone, and have taken the memory along.
    guarded([&] {
        Memory& memory = live().memory;
        memory.release(memory.take_device(address));
    });
}

std::shared_ptr<Replay> make_replay(uint64_t, std::span<const Step> steps, uint64_t) {
    return std::make_shared<GraphReplay>(steps);
}

}  // namespace graphs::platform
