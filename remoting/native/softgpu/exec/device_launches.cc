#include "exec/device_launches.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "exec/check/unwritten.h"

namespace softgpu {
namespace {

constexpr uint64_t kParameterAlign = 16;
// Streams that are there: the block's own has three names, then come cudaStreamTailLaunch and
// cudaStreamFireAndForget.
constexpr uint64_t kTail = 3, kLastOfBlock = 4;

}  // namespace

DeviceLaunches::DeviceLaunches(const Launch& root)
    : memory_(root.module->memory()), most_pending_(root.device_runtime.pending_launches) {}

DeviceLaunches::~DeviceLaunches() {
    for (const auto& [address, work] : buffers_) memory_.free(address);
    for (const auto* list : {&launched_, &tails_, &waiting_}) {
        for (const DeviceWork& work : *list) drop(work);
    }
}

DeviceError DeviceLaunches::refused_now() const {
    if (depth_ >= kMostDepth) return DeviceError::too_deep;
    const size_t pending = buffers_.size() + launched_.size() + tails_.size() + waiting_.size();
    return pending >= most_pending_ ? DeviceError::too_many_pending : DeviceError::none;
}

DeviceError DeviceLaunches::add_buffer(const DeviceWork& work, uint64_t bytes, uint64_t& address) {
    const std::lock_guard lock(mutex_);
    if (const DeviceError error = refused_now(); error != DeviceError::none) return error;
    address = memory_.allocate(std::max<uint64_t>(bytes, 1), kParameterAlign);
    if (address == 0) return DeviceError::out_of_memory;
    DeviceWork kept = work;
    kept.depth = depth_ + 1;
    kept.params = address;
    kept.param_bytes = bytes;
    buffers_.emplace(address, kept);
    return DeviceError::none;
}

std::optional<DeviceWork> DeviceLaunches::take_buffer(uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = buffers_.find(address);
    if (found == buffers_.end()) return std::nullopt;
    const DeviceWork work = found->second;
    buffers_.erase(found);
    return work;
}

void DeviceLaunches::drop(const DeviceWork& work) {
    if (work.params != 0) memory_.free(work.params);
}

DeviceError DeviceLaunches::launch(DeviceWork work, uint64_t stream) {
    if (stream > kLastOfBlock && !is(Handle::stream, stream)) return DeviceError::invalid_handle;
    const std::lock_guard lock(mutex_);
    // A buffer was counted when it was given.
    if (const DeviceError error = refused_now(); work.params == 0 && error != DeviceError::none) return error;
    work.depth = depth_ + 1;
    (stream == kTail ? tails_ : launched_).push_back(work);
    return DeviceError::none;
}

uint64_t DeviceLaunches::make(Handle kind) {
    const std::lock_guard lock(mutex_);
    return uint64_t(kind) + ++handles_;
}

bool DeviceLaunches::is(Handle kind, uint64_t handle) {
    const std::lock_guard lock(mutex_);
    const uint64_t number = handle - uint64_t(kind);
    return number > handles_before_ && number <= handles_;
}

DeviceLaunches::Errors* DeviceLaunches::errors_of(const Block* block) {
    const auto found = errors_.find(block);
    if (found == errors_.end()) return nullptr;
    Errors& errors = found->second;
    const bool same = errors.x == block->x && errors.y == block->y && errors.z == block->z;
    return same ? &errors : nullptr;
}

void DeviceLaunches::set_error(const Block* block, uint32_t thread, DeviceError error) {
    const std::lock_guard lock(mutex_);
    Errors* errors = errors_of(block);
    if (errors == nullptr) {
        errors = &errors_[block];
        *errors = {block->x, block->y, block->z, {}};
        errors->by_thread.resize(Limits::threads_per_block);
    }
    errors->by_thread[thread] = error;
}

DeviceError DeviceLaunches::error(const Block* block, uint32_t thread, bool forget) {
    const std::lock_guard lock(mutex_);
    Errors* errors = errors_of(block);
    if (errors == nullptr) return DeviceError::none;
    const DeviceError error = errors->by_thread[thread];
    if (forget) errors->by_thread[thread] = DeviceError::none;
    return error;
}

bool DeviceLaunches::is_news(uint32_t what) {
    const std::lock_guard lock(mutex_);
    return told_.insert(what).second;
}

void DeviceLaunches::grid_ended() {
    for (const auto& [address, work] : buffers_) memory_.free(address);
    buffers_.clear();
    waiting_.insert(waiting_.end(), tails_.rbegin(), tails_.rend());
    waiting_.insert(waiting_.end(), launched_.rbegin(), launched_.rend());
    tails_.clear();
    launched_.clear();
    errors_.clear();
    handles_before_ = handles_;
}

std::optional<DeviceWork> DeviceLaunches::next() {
    if (waiting_.empty()) return std::nullopt;
    const DeviceWork work = waiting_.back();
    waiting_.pop_back();
    depth_ = work.depth;
    return work;
}

namespace {

// Null when it is not in one allocation, or has no end.
std::byte* rows_at(DeviceMemory& memory, const DeviceRows& rows, const DeviceWork& work) {
    uint64_t extent = 0;
    if (__builtin_mul_overflow(work.rows - 1, rows.pitch, &extent) ||
        __builtin_add_overflow(extent, work.width, &extent))
        return nullptr;
    return memory.host_pointer(rows.address, extent);
}

LaunchResult out_of_bounds(const DeviceWork& work, const char* what, uint64_t address) {
    char place[32];
    std::snprintf(place, sizeof place, "0x%llx", static_cast<unsigned long long>(address));
    return {Status::illegal_address, std::string(what) + " of " + std::to_string(work.rows) + " x " +
                                         std::to_string(work.width) +
                                         " bytes is not within one allocation at " + place};
}

}  // namespace

LaunchResult run_memory_work(DeviceMemory& memory, const DeviceWork& work) {
    if (work.width == 0 || work.rows == 0) return {};
    const bool copies = work.kind == DeviceWork::Kind::copy;
    std::byte* to = rows_at(memory, work.to, work);
    if (to == nullptr)
        return out_of_bounds(work, copies ? "the destination of a copy" : "a fill", work.to.address);
    const std::byte* from = copies ? rows_at(memory, work.from, work) : nullptr;
    if (copies && from == nullptr) return out_of_bounds(work, "the source of a copy", work.from.address);
    check::Unwritten& looked_at = check::Unwritten::get();
    for (uint64_t row = 0; row < work.rows; ++row) {
        const uint64_t at = work.to.address + row * work.to.pitch;
        std::byte* line = to + row * work.to.pitch;
        if (copies) {
            std::memmove(line, from + row * work.from.pitch, work.width);
            if (looked_at.any()) looked_at.copied(at, work.from.address + row * work.from.pitch, work.width);
        } else {
            std::memset(line, work.value, work.width);
            if (looked_at.any()) looked_at.written(at, work.width);
        }
    }
    return {};
}

}  // namespace softgpu
