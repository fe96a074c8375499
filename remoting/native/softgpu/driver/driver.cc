#include "driver.h"

#include <pthread.h>

#include <utility>

#include "log.h"
#include "pool.h"
#include "session.h"
#include "signals_blocked.h"
#include "thread_state.h"

namespace softgpu::driver {
namespace {

std::mutex making;
std::atomic<Driver*> instance{nullptr};
std::atomic<bool> forked{false};

std::atomic<bool> told_forked{false};

void after_fork_in_child() {
    if (!instance.load(std::memory_order_relaxed)) return;
    forked.store(true, std::memory_order_relaxed);
    told_forked.store(false, std::memory_order_relaxed);
}

bool in_forked_child() noexcept {
    if (!forked.load(std::memory_order_relaxed)) return false;
    if (!told_forked.exchange(true)) {
        log_line(
            "this process was forked from one that had started CUDA, and cannot use the GPU. Start it with "
            "multiprocessing.get_context('spawn') in Python, with fork and exec in C, or start CUDA after "
            "the "
            "fork.");
    }
    return true;
}

}  // namespace

Driver::Driver(Config given)
    : config(std::move(given)),
      memory(this->config.devices, scheduler),
      pool(this->config.threads),
      devices_(this->config.devices.size()) {
    for (size_t i = 0; i < devices_.size(); ++i) {
        Device& device = devices_[i];
        device.primary_handle = handles.reserve();
        device.default_pool = std::make_shared<Pool>(static_cast<int>(i), 0);
        handles.add(device.default_pool);
        device.current_pool = device.default_pool;
    }
}

CUresult Driver::initialize() noexcept try {
    if (in_forked_child()) return CUDA_ERROR_NOT_INITIALIZED;
    if (instance.load(std::memory_order_acquire)) return CUDA_SUCCESS;
    const std::lock_guard lock(making);
    if (instance.load(std::memory_order_acquire)) return CUDA_SUCCESS;
    static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    require(registered == 0, CUDA_ERROR_OPERATING_SYSTEM);
    const SignalsBlocked blocked;
    Config config = Config::from_environment();
    require(!config.devices.empty(), CUDA_ERROR_NO_DEVICE);
    instance.store(new Driver(std::move(config)), std::memory_order_release);
    return CUDA_SUCCESS;
} catch (const Failure& failure) {
    return failure.code;
} catch (...) {
    return CUDA_ERROR_OUT_OF_MEMORY;
}

Driver* Driver::live() noexcept {
    return in_forked_child() ? nullptr : instance.load(std::memory_order_acquire);
}

std::shared_ptr<Context> Driver::current() {
    const auto& stack = thread_state().contexts;
    require(!stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
    auto context = handles.find<Context>(stack.back());
    require(context != nullptr, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return context;
}

std::shared_ptr<Context> Driver::context(CUcontext handle) {
    return handle ? handles.get<Context>(handle, CUDA_ERROR_INVALID_CONTEXT) : current();
}

void require_device(CUdevice device) {
    const Driver* driver = Driver::live();
    const auto count = driver ? static_cast<CUdevice>(driver->config.devices.size()) : 0;
    require(device >= 0 && device < count, CUDA_ERROR_INVALID_DEVICE);
}

uint64_t Driver::primary_handle(CUdevice number) {
    return device(number).primary_handle;  // does not change
}

std::shared_ptr<Pool> Driver::default_pool(CUdevice number) {
    const std::lock_guard lock(mutex_);
    return device(number).default_pool;
}

std::shared_ptr<Pool> Driver::current_pool(CUdevice number) {
    const std::lock_guard lock(mutex_);
    return device(number).current_pool;
}

void Driver::set_current_pool(CUdevice number, const std::shared_ptr<Pool>& pool) {
    const std::lock_guard lock(mutex_);
    device(number).current_pool = pool;
}

}  // namespace softgpu::driver

// To whom the calling thread works for, so that a forwarded program hears it too.
extern "C" void gk_tell_user(const char* text) {
    using namespace softgpu::driver;
    // In a forked child another thread of the parent may hold the session for ever.
    if (in_forked_child()) return log_line(text);
    current_session()->tell(kGkTextFault, text);
}
