#include "context.h"

#include "driver.h"
#include "thread_state.h"

namespace softgpu::driver {
namespace {

std::atomic<uint64_t> next_context{1};
std::atomic<uint64_t> next_stream{1};

}  // namespace

Context::Context(Driver& driver, unsigned flags, bool primary)
    : Object(kKind),
      driver(driver),
      id(next_context++),
      primary(primary),
      group(std::make_shared<QueueGroup>()),
      flags(flags) {
    limits_[CU_LIMIT_STACK_SIZE] = 1024;
    limits_[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    limits_[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    limits_[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

std::shared_ptr<Context> Context::create(Driver& driver, unsigned flags, bool primary) {
    std::shared_ptr<Context> context(new Context(driver, flags, primary));
    auto queue = std::make_shared<Queue>(context->group, true, 0);
    driver.scheduler.add(queue, true);
    context->legacy_ = std::make_shared<Stream>(context, queue, 0, next_stream++);
    return context;
}

std::shared_ptr<Stream> Context::legacy_stream() const {
    const std::lock_guard lock(mutex_);
    require(legacy_ != nullptr, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return legacy_;
}

std::shared_ptr<Stream> Context::new_stream(unsigned flags, int priority) {
    auto queue = std::make_shared<Queue>(group, !(flags & CU_STREAM_NON_BLOCKING), priority);
    driver.scheduler.add(queue, false);
    return std::make_shared<Stream>(shared_from_this(), queue, flags, next_stream++);
}

std::shared_ptr<Stream> Context::stream(CUstream handle) {
    const auto value = reinterpret_cast<uint64_t>(handle);
    ThreadState& thread = thread_state();
    const bool own = handle == CU_STREAM_PER_THREAD || (value == 0 && thread.per_thread_default);
    if (own) {
        auto& stream = thread.default_streams[id];
        if (!stream) stream = new_stream(0, 0);
        return stream;
    }
    if (value == 0 || handle == CU_STREAM_LEGACY) return legacy_stream();
    return driver.handles.get<Stream>(handle);
}

void Context::own(uint64_t handle) {
    const std::lock_guard lock(mutex_);
    if (destroyed_) {
        driver.handles.remove(handle);
        refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    owned_.insert(handle);
}

void Context::disown(uint64_t handle) {
    const std::lock_guard lock(mutex_);
    owned_.erase(handle);
}

size_t Context::limit(CUlimit limit) const {
    require(limit >= 0 && limit < CU_LIMIT_MAX, CUDA_ERROR_UNSUPPORTED_LIMIT);
    const std::lock_guard lock(mutex_);
    return limits_[limit];
}

void Context::set_limit(CUlimit limit, size_t value) {
    require(limit >= 0 && limit < CU_LIMIT_MAX, CUDA_ERROR_UNSUPPORTED_LIMIT);
    const std::lock_guard lock(mutex_);
    limits_[limit] = value;
}

void Context::destroy() {
    std::set<uint64_t> owned;
    std::shared_ptr<Stream> legacy;
    {
        const std::lock_guard lock(mutex_);
        require(!destroyed_, CUDA_ERROR_CONTEXT_IS_DESTROYED);
        require(!Scheduler::in_callback(), CUDA_ERROR_NOT_PERMITTED);
        destroyed_ = true;
        owned.swap(owned_);
        legacy.swap(legacy_);
    }
    driver.handles.remove(handle, this);  // a new primary context may have the handle already
    driver.scheduler.close(group);
    for (const uint64_t other : owned) {
        if (const auto object = driver.handles.find_any(other)) object->context_ended();
        driver.handles.remove(other);
    }
    driver.memory.release_context(*this);
}

}  // namespace softgpu::driver
