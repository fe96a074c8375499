// The device runtime: what kernels call to launch kernels, and what they may ask of the device.
#include <algorithm>
#include <bit>
#include <cstring>

#include "exec/builtins.h"
#include "exec/check/accesses.h"
#include "exec/device_launches.h"
#include "exec/launch.h"
#include "exec/readable_name.h"

namespace softgpu {
namespace {

constexpr uint64_t kNonBlocking = 1;    // cudaStreamNonBlocking, which streams in kernels must be
constexpr uint64_t kDisableTiming = 2;  // cudaEventDisableTiming, which events in kernels must have
constexpr uint64_t kDeviceToDevice = 3, kByAddress = 4;

// One lane's call.
class Call {
  public:
    Call(const Op* op, Warp* warp, const CallSite& site, unsigned lane)
        : op_(op), warp_(warp), site_(site), lane_(lane) {}

    LaunchState& state() const { return *warp_->block->launch; }
    const Launch& launch() const { return *state().launch; }
    DeviceLaunches& launches() const { return *state().children; }
    uint64_t number(size_t i) const { return argument(warp_, site_, i, lane_); }
    Dim3 dim3(size_t i) const {
        uint32_t size[3] = {0, 0, 0};
        if (i < site_.arguments.size() && site_.arguments[i].local) {
            const Place& place = site_.arguments[i];
            const uint64_t bytes = std::min<uint64_t>(place.bytes, sizeof size);
            const std::byte* from =
                resolve(warp_, lane_, Windows::local + warp_->frame->local_base + place.offset, bytes);
            if (from != nullptr) std::memcpy(size, from, bytes);
        }
        return {size[0], size[1], size[2]};
    }

    // Through a pointer that the program has given; a fault where it may not.
    template <class T>
    bool store(uint64_t address, T value) {
        std::byte* to = resolve(warp_, lane_, address, sizeof value);
        const bool read_only = (address & ~(Windows::size - 1)) == Windows::param;
        if (to == nullptr || read_only || (address & (sizeof value - 1)) != 0) {
            fault_lane(op_, warp_,
                       to == nullptr || read_only ? Status::illegal_address : Status::misaligned_address,
                       lane_, address, sizeof value, "write");
            return false;
        }
        if (check::LaunchChecks* const checks = state().checks)
            check::touch_memory(*checks, checks->block(warp_),
                                {op_, warp_, lane_, sizeof value, sizeof value, check::writes}, address);
        std::memcpy(to, &value, sizeof value);
        return true;
    }

    // The call's value, and what is remembered and told of it.
    bool answer(DeviceError error) {
        if (error != DeviceError::none) launches().set_error(warp_->block, thread(), error);
        give(uint64_t(error));
        return true;
    }
    bool refuse(DeviceError error, const std::string& why, bool with_error = true) {
        launches().set_error(warp_->block, thread(), error);
        give(with_error ? uint64_t(error) : 0);
        tell(uint32_t(error), why);
        return true;
    }
    // A line, for the first of its kind.
    void tell(uint32_t kind, const std::string& what) const {
        if (!launch().complain || !launches().is_news(kind)) return;
        launch().complain("gpu-kernels: " + describe_place(warp_, lane_) + ": " + what + "; " +
                          describe_line(&state(), op_) + "\n");
    }
    void give(uint64_t value) { give_back(warp_, site_, lane_, value); }
    const Block* block() const { return warp_->block; }
    uint32_t thread() const { return warp_->index * kLanes + lane_; }
    uint32_t own_kernel() const { return uint32_t(state().info - state().image->kernel_infos.data()); }

  private:
    const Op* op_;
    Warp* warp_;
    const CallSite& site_;
    unsigned lane_;
};

std::optional<uint32_t> kernel_at(const Image& image, uint64_t pointer) {
    const uint64_t index = pointer - Windows::function;
    for (uint32_t i = 0; i < image.kernels.size(); ++i) {
        if (image.kernels[i].function == index) return i;
    }
    return std::nullopt;
}

// Why a launch is not made.
struct Refusal {
    DeviceError error = DeviceError::none;
    std::string why;
};

std::string describe(DeviceError error, uint32_t most_pending) {
    switch (error) {
        case DeviceError::too_deep:
            return "it would be " + std::to_string(DeviceLaunches::kMostDepth + 1) +
                   " launches deep; a GPU allows " + std::to_string(DeviceLaunches::kMostDepth) +
                   " (cudaErrorLaunchMaxDepthExceeded): end the recursion sooner";
        case DeviceError::too_many_pending:
            return std::to_string(most_pending) +
                   " launches are pending (cudaErrorLaunchPendingCountExceeded): set a larger "
                   "cudaLimitDevRuntimePendingLaunchCount (cudaDeviceSetLimit), or launch fewer, larger "
                   "grids";
        case DeviceError::out_of_memory:
            return "the device has no memory for its parameters (cudaErrorMemoryAllocation)";
        case DeviceError::invalid_handle:
            return "its stream is not one that this grid has made (cudaErrorInvalidResourceHandle)";
        default:
            return "invalid argument (cudaErrorInvalidValue)";
    }
}

// Fills in what is launched, or says why it cannot be.
Refusal shape_work(const Call& call, uint64_t pointer, Dim3 grid, Dim3 block, uint64_t shared,
                   DeviceWork& work) {
    const Image& image = *call.state().image;
    const auto kernel = kernel_at(image, pointer);
    if (!kernel) {
        const uint64_t index = pointer - Windows::function;
        const bool refused = index < image.functions.size() && image.functions[index].kernel;
        return {DeviceError::no_kernel,
                refused ? "launch of kernel " + readable_name(image.functions[index].name) +
                              ", which cannot run here (cudaErrorInvalidDeviceFunction)"
                        : "launch of what is no kernel of its module "
                          "(cudaErrorInvalidDeviceFunction)"};
    }
    const KernelInfo& info = image.kernel_infos[*kernel];
    const auto dynamic = uint32_t(shared);
    std::string why = refuse_shape(info, grid, block, dynamic);
    const auto& most = call.launch().device_runtime.most_dynamic_shared;
    if (why.empty() && most && dynamic > most(*kernel)) {
        why = std::to_string(dynamic) + " bytes of dynamic shared memory; it may have " +
              std::to_string(most(*kernel)) + " (cudaFuncSetAttribute allows more)";
    }
    if (!why.empty()) {
        return {DeviceError::invalid_configuration, "launch of kernel " + readable_name(info.name) +
                                                        " with " + why + " (cudaErrorInvalidConfiguration)"};
    }
    work.kernel = *kernel;
    work.grid = grid;
    work.block = block;
    work.dynamic_shared_bytes = dynamic;
    return {};
}

bool add_buffer(Call& call, const DeviceWork& work, uint64_t bytes) {
    DeviceLaunches& launches = call.launches();
    uint64_t address = 0;
    const DeviceError error = launches.add_buffer(work, bytes, address);
    if (error != DeviceError::none) {
        const uint32_t most = call.launch().device_runtime.pending_launches;
        return call.refuse(error, "a launch was refused: " + describe(error, most), false);
    }
    call.give(address);
    return true;
}

// cudaGetParameterBuffer(alignment, size)
bool parameter_buffer(Call& call) {
    DeviceWork work;
    work.launcher = call.own_kernel();
    const uint64_t bytes = call.number(1);
    if (bytes > Limits::param_bytes)
        return call.refuse(
            DeviceError::invalid_value,
            "a launch was refused: more than " + std::to_string(Limits::param_bytes) + " bytes of parameters",
            false);
    return add_buffer(call, work, bytes);
}

// cudaGetParameterBufferV2(kernel, grid, block, shared bytes)
bool parameter_buffer_of_kernel(Call& call) {
    DeviceWork work;
    work.launcher = call.own_kernel();
    const Refusal refusal =
        shape_work(call, call.number(0), call.dim3(1), call.dim3(2), uint32_t(call.number(3)), work);
    if (refusal.error != DeviceError::none) return call.refuse(refusal.error, refusal.why, false);
    return add_buffer(call, work, call.state().image->kernel_infos[work.kernel].param_bytes);
}

// A pointer to the launcher's own shared or local memory means another place in the child. It may go unused,
// so the launch is made all the same.
void tell_of_own_memory(const Call& call, const DeviceWork& work) {
    constexpr uint32_t kOwnMemory = UINT32_MAX;  // no error's number
    const std::byte* params = call.state().memory->host_pointer(work.params, work.param_bytes);
    for (uint64_t at = 0; params != nullptr && at + 8 <= work.param_bytes; at += 8) {
        uint64_t value;
        std::memcpy(&value, params + at, sizeof value);
        const bool shared = value - Windows::shared < Limits::shared_bytes;
        if (!shared && value - Windows::local >= Limits::local_bytes) continue;
        const auto& name = call.state().image->kernel_infos[work.kernel].name;
        return call.tell(kOwnMemory, "launch of kernel " + readable_name(name) +
                                         " with a pointer to its own " + (shared ? "shared" : "local") +
                                         " memory at byte " + std::to_string(at) +
                                         " of the parameters, which is another place there: give it device "
                                         "memory (cudaMalloc, malloc, a __device__ variable)");
    }
}

bool launch_taken(Call& call, const DeviceWork& work, uint64_t stream) {
    if (work.params != 0) tell_of_own_memory(call, work);
    DeviceLaunches& launches = call.launches();
    const DeviceError error = launches.launch(work, stream);
    if (error == DeviceError::none) return call.answer(error);
    launches.drop(work);
    const uint32_t most = call.launch().device_runtime.pending_launches;
    return call.refuse(error, "a launch was refused: " + describe(error, most));
}

constexpr const char* kNoBuffer =
    "launch with parameters that cudaGetParameterBuffer has not given, or that were launched already "
    "(cudaErrorInvalidValue)";

// cudaLaunchDevice(kernel, parameters, grid, block, shared bytes, stream)
bool launch_kernel(Call& call) {
    DeviceLaunches& launches = call.launches();
    DeviceWork work;
    const uint64_t address = call.number(1);
    if (address != 0) {
        const auto taken = launches.take_buffer(address);
        if (!taken) return call.refuse(DeviceError::invalid_value, kNoBuffer);
        work = *taken;
    }
    work.launcher = call.own_kernel();
    Refusal refusal =
        shape_work(call, call.number(0), call.dim3(2), call.dim3(3), uint32_t(call.number(4)), work);
    const uint64_t wanted =
        refusal.error == DeviceError::none ? call.state().image->kernel_infos[work.kernel].param_bytes : 0;
    if (work.param_bytes < wanted) {
        refusal = {DeviceError::invalid_value, "launch with " + std::to_string(work.param_bytes) +
                                                   " bytes of parameters where the kernel has " +
                                                   std::to_string(wanted) + " (cudaErrorInvalidValue)"};
    }
    if (refusal.error == DeviceError::none) return launch_taken(call, work, call.number(5));
    launches.drop(work);
    return call.refuse(refusal.error, refusal.why);
}

// cudaLaunchDeviceV2(parameters, stream). A buffer of the first kind has no kernel.
bool launch_buffer(Call& call) {
    const auto work = call.launches().take_buffer(call.number(0));
    if (!work) return call.refuse(DeviceError::invalid_value, kNoBuffer);
    if (work->kernel == DeviceWork::kNoKernel) {
        call.launches().drop(*work);
        return call.refuse(DeviceError::invalid_value, kNoBuffer);
    }
    return launch_taken(call, *work, call.number(1));
}

// (to, from, bytes, kind, stream) and (to, pitch, from, pitch, width, height, kind, stream)
bool copy(Call& call, bool rows) {
    DeviceWork work;
    work.kind = DeviceWork::Kind::copy;
    work.launcher = call.own_kernel();
    if (rows) {
        work.to = {call.number(0), call.number(1)};
        work.from = {call.number(2), call.number(3)};
        work.width = call.number(4);
        work.rows = call.number(5);
    } else {
        work.to = {call.number(0), 0};
        work.from = {call.number(1), 0};
        work.width = call.number(2);
        work.rows = 1;
    }
    const uint64_t kind = call.number(rows ? 6 : 3);
    if (kind != kDeviceToDevice && kind != kByAddress) {
        return call.refuse(DeviceError::invalid_direction,
                           "a copy that is not from device to device (cudaErrorInvalidMemcpyDirection)");
    }
    if (work.rows > 1 && (work.to.pitch < work.width || work.from.pitch < work.width))
        return call.refuse(DeviceError::invalid_pitch,
                           "a copy of rows longer than their pitch "
                           "(cudaErrorInvalidPitchValue)");
    return launch_taken(call, work, call.number(rows ? 7 : 4));
}

// (to, value, bytes, stream) and (to, pitch, value, width, height, stream)
bool fill(Call& call, bool rows) {
    DeviceWork work;
    work.kind = DeviceWork::Kind::fill;
    work.launcher = call.own_kernel();
    work.to = {call.number(0), rows ? call.number(1) : 0};
    work.value = uint8_t(call.number(rows ? 2 : 1));
    work.width = call.number(rows ? 3 : 2);
    work.rows = rows ? call.number(4) : 1;
    if (work.rows > 1 && work.to.pitch < work.width)
        return call.refuse(DeviceError::invalid_pitch,
                           "a fill of rows longer than their pitch "
                           "(cudaErrorInvalidPitchValue)");
    return launch_taken(call, work, call.number(rows ? 5 : 3));
}

bool make(Call& call, DeviceLaunches::Handle kind, uint64_t flags) {
    if (uint32_t(call.number(1)) != flags) return call.answer(DeviceError::invalid_value);
    return call.store(call.number(0), call.launches().make(kind)) && call.answer(DeviceError::none);
}

// Streams and events order nothing more than the one order that there is, so nothing is kept of them.
bool use(Call& call, DeviceLaunches::Handle kind, uint64_t handle) {
    return call.answer(call.launches().is(kind, handle) ? DeviceError::none : DeviceError::invalid_handle);
}

// The event, in a stream of the grid's or of the block.
bool use_event(Call& call, uint64_t event, uint64_t stream) {
    using Handle = DeviceLaunches::Handle;
    constexpr uint64_t kBlockStreams = 2;
    if (stream > kBlockStreams && !call.launches().is(Handle::stream, stream))
        return call.answer(DeviceError::invalid_handle);
    return use(call, Handle::event, event);
}

bool allocate(Call& call) {
    const uint64_t address = call.state().memory->allocate_by_kernel(call.number(1), 256);
    return call.store(call.number(0), address) &&
           call.answer(address == 0 ? DeviceError::out_of_memory : DeviceError::none);
}

bool release(Call& call) {
    const uint64_t address = call.number(0);
    const bool freed = address == 0 || call.state().memory->free_by_kernel(address);
    return call.answer(freed ? DeviceError::none : DeviceError::invalid_value);
}

bool device_attribute(Call& call) {
    const DeviceRuntime& runtime = call.launch().device_runtime;
    if (int(call.number(2)) != runtime.device) return call.answer(DeviceError::invalid_device);
    const auto value = runtime.attribute ? runtime.attribute(int(call.number(1))) : std::nullopt;
    if (!value) return call.answer(DeviceError::invalid_value);
    return call.store(call.number(0), *value) && call.answer(DeviceError::none);
}

bool device_limit(Call& call) {
    const DeviceRuntime& runtime = call.launch().device_runtime;
    const auto value = runtime.limit ? runtime.limit(int(call.number(1))) : std::nullopt;
    if (!value) return call.answer(DeviceError::unsupported_limit);
    return call.store(call.number(0), uint64_t{*value}) && call.answer(DeviceError::none);
}

bool last_error(Call& call, bool forget) {
    call.give(uint64_t(call.launches().error(call.block(), call.thread(), forget)));
    return true;
}

// False after a fault.
bool run(Call& call, Builtin builtin) {
    using Handle = DeviceLaunches::Handle;
    switch (builtin) {
        case Builtin::parameter_buffer:
            return parameter_buffer(call);
        case Builtin::parameter_buffer_of_kernel:
            return parameter_buffer_of_kernel(call);
        case Builtin::launch_kernel:
            return launch_kernel(call);
        case Builtin::launch_buffer:
            return launch_buffer(call);
        case Builtin::make_stream:
            return make(call, Handle::stream, kNonBlocking);
        case Builtin::end_stream:
            return use(call, Handle::stream, call.number(0));
        case Builtin::make_event:
            return make(call, Handle::event, kDisableTiming);
        case Builtin::end_event:
            return use(call, Handle::event, call.number(0));
        case Builtin::record_event:
            return use_event(call, call.number(0), call.number(1));
        case Builtin::wait_for_event:
            return use_event(call, call.number(1), call.number(0));
        case Builtin::take_error:
        case Builtin::look_at_error:
            return last_error(call, builtin == Builtin::take_error);
        case Builtin::device_allocate:
            return allocate(call);
        case Builtin::device_release:
            return release(call);
        case Builtin::copy:
        case Builtin::copy_rows:
            return copy(call, builtin == Builtin::copy_rows);
        case Builtin::fill:
        case Builtin::fill_rows:
            return fill(call, builtin == Builtin::fill_rows);
        case Builtin::device:
            return call.store(call.number(0), call.launch().device_runtime.device) &&
                   call.answer(DeviceError::none);
        case Builtin::device_count:
            return call.store(call.number(0), call.launch().device_runtime.devices) &&
                   call.answer(DeviceError::none);
        case Builtin::device_attribute:
            return device_attribute(call);
        case Builtin::device_limit:
            return device_limit(call);
        default:
            return true;
    }
}

}  // namespace

const Op* call_device_runtime(const Op* op, Warp* warp, const CallSite& site) {
    for (uint32_t left = warp->mask; left != 0; left &= left - 1) {
        Call call(op, warp, site, unsigned(std::countr_zero(left)));
        if (!run(call, site.builtin)) return nullptr;
    }
    return op + 1;
}

}  // namespace softgpu
