#include "driver.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "log.h"
#include "pool.h"
#include "thread_state.h"

namespace softgpu::driver {
namespace {

std::mutex making;
std::atomic<Driver*> instance{nullptr};
std::atomic<bool> forked{false};

void after_fork_in_child() {
    if (instance.load(std::memory_order_relaxed)) forked.store(true, std::memory_order_relaxed);
}

// Threads made while this lives leave the program's signals to the program's threads.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_;
};

}  // namespace

Driver::Driver(Config config)
    : config(std::move(config)),
      memory(this->config.memory_bytes, scheduler),
      pool(this->config.threads),
      primary_handle_(handles.reserve()) {
    default_pool_ = std::make_shared<Pool>(Pool::Settings{});
    handles.add(default_pool_);
    current_pool_ = default_pool_;
}

CUresult Driver::initialize() noexcept try {
    if (forked.load(std::memory_order_relaxed)) return CUDA_ERROR_NOT_INITIALIZED;
    if (instance.load(std::memory_order_acquire)) return CUDA_SUCCESS;
    const std::lock_guard lock(making);
    if (instance.load(std::memory_order_acquire)) return CUDA_SUCCESS;
    static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    require(registered == 0, CUDA_ERROR_OPERATING_SYSTEM);
    const SignalsBlocked blocked;
    instance.store(new Driver(Config::from_environment()), std::memory_order_release);
    return CUDA_SUCCESS;
} catch (const Failure& failure) {
    return failure.code;
} catch (...) {
    return CUDA_ERROR_OUT_OF_MEMORY;
}

Driver* Driver::live() noexcept {
    return forked.load(std::memory_order_relaxed) ? nullptr : instance.load(std::memory_order_acquire);
}

std::shared_ptr<Context> Driver::current() {
    const auto& stack = thread_state().contexts;
    require(!stack.empty() && stack.back() != 0, CUDA_ERROR_INVALID_CONTEXT);
    auto context = handles.find<Context>(stack.back());
    require(context != nullptr, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return context;
}

std::shared_ptr<Context> Driver::context(CUcontext handle) {
    return handle ? handles.get<Context>(handle, CUDA_ERROR_INVALID_CONTEXT) : current();
}

std::shared_ptr<Context> Driver::retain_primary() {
    const std::lock_guard lock(mutex_);
    if (!primary_) {
        primary_ = Context::create(*this, primary_flags_, true);
        handles.put(primary_handle_, primary_);
    }
    ++primary_count_;
    return primary_;
}

void Driver::release_primary() {
    std::shared_ptr<Context> last;
    {
        const std::lock_guard lock(mutex_);
        require(primary_count_ > 0, CUDA_ERROR_INVALID_CONTEXT);
        if (--primary_count_ == 0) last = std::exchange(primary_, nullptr);
    }
    if (last) last->destroy();
}

void Driver::reset_primary() {
    std::shared_ptr<Context> old;
    {
        const std::lock_guard lock(mutex_);
        old = std::exchange(primary_, nullptr);
    }
    if (old) old->destroy();
}

void Driver::set_primary_flags(unsigned flags) {
    const std::lock_guard lock(mutex_);
    primary_flags_ = flags;
    if (primary_) primary_->flags = flags;
}

Driver::PrimaryState Driver::primary_state() {
    const std::lock_guard lock(mutex_);
    return {primary_flags_, primary_ != nullptr};
}

std::shared_ptr<Pool> Driver::default_pool() {
    const std::lock_guard lock(mutex_);
    return default_pool_;
}

std::shared_ptr<Pool> Driver::current_pool() {
    const std::lock_guard lock(mutex_);
    return current_pool_;
}

void Driver::set_current_pool(const std::shared_ptr<Pool>& pool) {
    const std::lock_guard lock(mutex_);
    current_pool_ = pool;
}

}  // namespace softgpu::driver

extern "C" void gk_unsupported(const char* name) {
    softgpu::driver::log_line(std::string(name) +
                              " is not supported; its callers get CUDA_ERROR_NOT_SUPPORTED");
}
