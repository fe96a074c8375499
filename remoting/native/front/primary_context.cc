// Entry points: each device's primary context, which libraries share by counting.
#include <array>
#include <functional>
#include <mutex>

#include "context.h"
#include "platform.h"

using namespace front;

namespace {

struct Primary {
    // Of counting, beginning and ending; who only asks is not held up. What may wait for the program's own
    // functions, which may want this too, is done without it.
    std::mutex mutex;
    unsigned retained = 0;
    std::atomic<unsigned> flags{0};
};

// Never destroyed: libraries release what they have retained from exit handlers.
Primary& of(CUdevice device) {
    static auto* all = new std::array<Primary, kMostDevices>;
    return (*all)[static_cast<size_t>(device)];
}

std::shared_ptr<Context> living(CUdevice device) {
    return platform::find_context(platform::primary_context(device));
}

// With the mutex. What is left to do is done without it.
std::function<void()> end(CUdevice device) {
    const auto context = living(device);
    return context ? platform::end_context(*context) : [] {};
}

}  // namespace

void front::set_primary_flags(CUdevice device, unsigned flags) {
    const std::lock_guard lock(of(device).mutex);
    of(device).flags = flags;
    if (const auto context = living(device)) context->flags = flags;
}

void front::require_enterable(CUcontext handle) {
    if (platform::find_context(handle)) return;
    const auto device = platform::primary_to_begin_again(handle);
    require(device && *device < platform::device_count(), CUDA_ERROR_INVALID_CONTEXT);
    require_outside_callback();
    const std::lock_guard lock(of(*device).mutex);
    // Another thread may have begun it meanwhile, and have ended it too.
    if (platform::primary_to_begin_again(handle)) platform::begin_primary_context(*device, of(*device).flags);
    require(living(*device) != nullptr, CUDA_ERROR_INVALID_CONTEXT);
}

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
    return call([&] {
        platform::require_device(dev);
        require(pctx != nullptr);
        require_outside_callback();
        const std::lock_guard lock(of(dev).mutex);
        if (!living(dev)) platform::begin_primary_context(dev, of(dev).flags);
        ++of(dev).retained;
        *pctx = platform::primary_context(dev);
    });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    return call([&] {
        platform::require_device_to_leave(dev);
        require_outside_callback();
        std::unique_lock lock(of(dev).mutex);
        require(of(dev).retained > 0, CUDA_ERROR_INVALID_CONTEXT);
        if (--of(dev).retained > 0) return;
        const auto rest = end(dev);  // unless it was reset before
        lock.unlock();
        rest();
    });
}
CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    return call([&] {
        platform::require_device_to_leave(dev);
        require_outside_callback();
        std::unique_lock lock(of(dev).mutex);
        const auto rest = end(dev);
        lock.unlock();
        rest();
    });
}
CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
    return call([&] {
        platform::require_device(dev);
        require_flags(flags);
        set_primary_flags(dev, flags);
    });
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
    return call([&] {
        platform::require_device(dev);
        require(flags != nullptr && active != nullptr);
        *flags = of(dev).flags;
        *active = living(dev) != nullptr;
    });
}
}
