#include "context.h"

#include <utility>

#include "driver.h"
#include "thread_state.h"

namespace softgpu::driver {
namespace {

std::atomic<uint64_t> next_context{1};
std::atomic<uint64_t> next_stream{1};

constexpr std::array<size_t, CU_LIMIT_MAX> first_limits() {
    std::array<size_t, CU_LIMIT_MAX> limits{};
    limits[CU_LIMIT_STACK_SIZE] = 1024;
    limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    return limits;
}
constexpr auto kLimits = first_limits();
constexpr size_t kMostPending = 1 << 20;  // launches by kernels
constexpr uint64_t kPendingBytes = 512;   // what is kept of one, apart from its parameters

// What one unit of a limit takes of the device: a stack is there for each thread that can run.
uint64_t bytes_of_unit(const Config& config, CUlimit limit) {
    switch (limit) {
        case CU_LIMIT_STACK_SIZE:
            return uint64_t{config.threads} * Limits::threads_per_block;
        case CU_LIMIT_PRINTF_FIFO_SIZE:
        case CU_LIMIT_MALLOC_HEAP_SIZE:
            return 1;
        case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
            return kPendingBytes;
        default:
            return 0;
    }
}

// What a limit takes beyond what it has to begin with.
uint64_t bytes_of_limit(const Config& config, CUlimit limit, size_t value) {
    const uint64_t more = value - std::min(value, kLimits[limit]), unit = bytes_of_unit(config, limit);
    return unit != 0 && more > UINT64_MAX / unit ? UINT64_MAX : more * unit;
}

}  // namespace

Context::Context(Driver& driver, CUdevice device, unsigned flags)
    : Object(kKind), driver(driver), group(std::make_shared<QueueGroup>()) {
    this->device = device;
    id = next_context++;
    this->flags = flags;
    limits_ = kLimits;
}

std::shared_ptr<Context> Context::create(Driver& driver, CUdevice device, unsigned flags) {
    std::shared_ptr<Context> context(new Context(driver, device, flags));
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
    require(limit != CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT || value <= kMostPending);
    const std::lock_guard one(setting_limit_);
    size_t before;
    uint64_t taken;
    {
        const std::lock_guard lock(mutex_);
        require(!destroyed_, CUDA_ERROR_CONTEXT_IS_DESTROYED);
        before = limits_[limit];
        taken = std::exchange(limit_memory_[limit], 0);
    }
    DeviceMemory& memory = driver.memory.space(device);
    const auto take = [&](size_t wanted) {
        const uint64_t bytes = bytes_of_limit(driver.config, limit, wanted);
        taken = bytes == 0 || bytes > memory.total_bytes() ? 0 : driver.memory.place_at(device, bytes);
        return taken != 0 || bytes == 0;
    };
    if (taken) memory.free(taken);
    const bool enough = take(value);  // which may wait
    if (!enough) take(before);
    {
        const std::lock_guard lock(mutex_);
        if (!destroyed_) limit_memory_[limit] = std::exchange(taken, 0);
        if (enough) limits_[limit] = value;
    }
    if (taken) memory.free(taken);  // the context has ended meanwhile
    require(enough, CUDA_ERROR_OUT_OF_MEMORY);
}

std::function<void()> Context::destroy() {
    std::set<uint64_t> owned;
    std::shared_ptr<Stream> legacy;
    LimitMemory of_limits{};
    {
        const std::lock_guard lock(mutex_);
        require(!destroyed_, CUDA_ERROR_CONTEXT_IS_DESTROYED);
        destroyed_ = true;
        owned.swap(owned_);
        legacy.swap(legacy_);
        of_limits.swap(limit_memory_);
    }
    driver.handles.remove(handle, this);  // a new primary context may have the handle already
    return [self = shared_from_this(), owned = std::move(owned), legacy = std::move(legacy), of_limits] {
        self->end(owned, of_limits);
    };
}

void Context::end(const std::set<uint64_t>& owned, const LimitMemory& of_limits) {
    group->fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    // Its calls in line are not done any more, and none that runs gets in line after that (library_call.cc).
    group->cancel.store(true, std::memory_order_relaxed);
    driver.memory.call_budget().wake_context(group.get());
    driver.scheduler.close(group);
    for (const uint64_t other : owned) {
        if (const auto object = driver.handles.find_any(other)) object->context_ended();
        driver.handles.remove(other);
    }
    for (const uint64_t memory : of_limits) {
        if (memory) driver.memory.space(device).free(memory);
    }
    driver.memory.release_context(*this);
}

}  // namespace softgpu::driver
