#include "launch.h"

#include <algorithm>
#include <cstring>

#include "attributes.h"
#include "driver.h"
#include "exec/check/request.h"
#include "session.h"

namespace softgpu::driver {
namespace {

CUresult as_result(Status status) {
    switch (status) {
        case Status::ok:
            return CUDA_SUCCESS;
        case Status::invalid_launch:
            return CUDA_ERROR_INVALID_VALUE;
        case Status::illegal_address:
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        case Status::misaligned_address:
            return CUDA_ERROR_MISALIGNED_ADDRESS;
        case Status::illegal_instruction:
            return CUDA_ERROR_ILLEGAL_INSTRUCTION;
        case Status::invalid_pc:
            return CUDA_ERROR_INVALID_PC;
        case Status::stack_overflow:
            return CUDA_ERROR_HARDWARE_STACK_ERROR;
        case Status::assertion:
            return CUDA_ERROR_ASSERT;
        case Status::trap:
            return CUDA_ERROR_LAUNCH_FAILED;
        case Status::deadlock:
            return CUDA_ERROR_LAUNCH_TIMEOUT;
        case Status::out_of_memory:
            return CUDA_ERROR_OUT_OF_MEMORY;
        case Status::interrupted:
            return CUDA_SUCCESS;  // who waits hears of it (session.h); the context goes on
        case Status::cancelled:
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    return CUDA_ERROR_UNKNOWN;
}

void check_shape(const Function& function, const LaunchRequest& request) {
    const KernelInfo& info = function.info();
    const Dim3 grid = request.grid, block = request.block;
    require(grid.x && grid.y && grid.z && block.x && block.y && block.z);
    require(grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535);
    require(block.x <= 1024 && block.y <= 1024 && block.z <= 64);
    const uint32_t threads = block.x * block.y * block.z;
    require(threads <= Limits::threads_per_block);
    require(threads <= info.max_threads, CUDA_ERROR_INVALID_VALUE);
    const auto& wanted = info.required_block;
    require(wanted[0] == 0 || (wanted[0] == block.x && wanted[1] == block.y && wanted[2] == block.z));
    require(request.dynamic_shared <= function.settings->max_dynamic_shared.load());
}

// What kernels may ask, and launch. Nothing of it is copied while a launch runs.
DeviceRuntime device_runtime(const Module& module) {
    const Context& context = *module.context;
    const auto attribute = [&context](int number) {
        return device_attribute(context.driver.config, static_cast<CUdevice_attribute>(number));
    };
    const auto limit = [&context](int number) -> std::optional<size_t> {
        if (number < 0 || number >= CU_LIMIT_MAX) return std::nullopt;
        return context.limit(static_cast<CUlimit>(number));
    };
    return {
        .device = context.device,
        .devices = static_cast<int>(context.driver.config.devices.size()),
        .pending_launches = static_cast<uint32_t>(context.limit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT)),
        .attribute = attribute,
        .limit = limit,
        .most_dynamic_shared = [&module](uint32_t kernel) { return module.most_dynamic_shared(kernel); }};
}

// Runs the kernel for its session, and tells the session what is to tell.
CUresult run_for(Session& session, Launch launch) {
    launch.print = [&session](std::string_view text) { session.tell(kGkTextOutput, text); };
    launch.complain = [&session](std::string_view text) { session.tell(kGkTextError, text); };
    launch.interrupts = &session.interrupts;
    launch.interrupts_before = Scheduler::interrupts_before();
    const check::Request request{session.checks.load(std::memory_order_relaxed),
                                 [&session](std::string_view text) { session.tell(kGkTextFinding, text); }};
    const check::Scope scope(request);
    const LaunchResult result = run(launch);
    if (result.status == Status::interrupted) {
        session.lost_work();
    } else if (result.status != Status::ok && result.status != Status::cancelled) {
        session.tell(kGkTextFault, result.detail);
        session.tell_remedy();
    }
    return as_result(result.status);
}

}  // namespace

std::function<CUresult()> prepare_launch(const std::shared_ptr<Function>& function,
                                         const LaunchRequest& request, std::vector<std::byte> params) {
    check_shape(*function, request);
    if (request.cooperative) {
        const Config& config = function->module->context->driver.config;
        const auto threads = static_cast<int>(request.block.x * request.block.y * request.block.z);
        const int each = cuda::blocks_at_once(multiprocessor(config), needs_of(*function), threads,
                                              request.dynamic_shared);
        require(uint64_t{request.grid.x} * request.grid.y * request.grid.z <=
                    uint64_t{config.threads} * static_cast<unsigned>(each),
                CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    return [function, grid = request.grid, block = request.block, shared = request.dynamic_shared,
            cooperative = request.cooperative, params = std::move(params), session = current_session()] {
        Context& context = *function->module->context;
        return run_for(*session, {.module = &function->module->loaded(),
                                  .kernel = function->index,
                                  .grid = grid,
                                  .block = block,
                                  .dynamic_shared_bytes = shared,
                                  .stack_bytes = context.limit(CU_LIMIT_STACK_SIZE),
                                  .cooperative = cooperative,
                                  .params = params,
                                  .objects = &context.objects,
                                  .pool = &context.driver.pool,
                                  .cancel = &context.group->cancel,
                                  .device_runtime = device_runtime(*function->module)});
    };
}

cuda::Multiprocessor multiprocessor(const Config& config) {
    return cuda::multiprocessor(
        [&](CUdevice_attribute attribute) { return device_attribute(config, attribute).value_or(0); });
}

cuda::KernelNeeds needs_of(const Function& function) {
    const KernelInfo& info = function.info();
    return {.threads = static_cast<int>(info.max_threads),
            .registers = static_cast<int>(info.registers),
            .static_shared = static_cast<int>(info.static_shared_bytes),
            .most_dynamic_shared = static_cast<int>(function.settings->max_dynamic_shared.load())};
}

}  // namespace softgpu::driver
