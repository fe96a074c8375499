#include "session.h"

#include "worker.h"

namespace worker {

void Session::hold(CUresult error, const char* call) {
    int none = CUDA_SUCCESS;
    if (!held_.compare_exchange_strong(none, error) || error == worker_.poisoned.load()) return;
    const char* text = gk_error_name(error);
    log_line("session " + name_ + ": " + call + " failed with " + (text ? text : std::to_string(error)));
}

CUresult Session::take_held() {
    if (held_.load(std::memory_order_relaxed) == CUDA_SUCCESS) return CUDA_SUCCESS;
    return static_cast<CUresult>(held_.exchange(CUDA_SUCCESS));
}

std::shared_ptr<Upload> Session::upload(const wire::Digest& digest, uint64_t total) {
    constexpr size_t kAtOnce = 8;
    const std::lock_guard lock(mutex_);
    auto& slot = uploads_[digest];
    if (!slot) {
        if (uploads_.size() > kAtOnce) {
            uploads_.erase(digest);
            return nullptr;
        }
        slot = std::make_shared<Upload>(total);
    }
    return slot;
}

void Session::end_upload(const wire::Digest& digest) {
    const std::lock_guard lock(mutex_);
    uploads_.erase(digest);
}

bool Session::add_lane(uint32_t lane, wire::Transport* transport) {
    const std::lock_guard lock(mutex_);
    return !ended() && lanes_.emplace(lane, transport).second;
}

bool Session::remove_lane(uint32_t lane) {
    const std::lock_guard lock(mutex_);
    lanes_.erase(lane);
    return lanes_.empty();
}

void Session::end() {
    const std::lock_guard lock(mutex_);
    ended_.store(true, std::memory_order_release);
    for (auto& [lane, transport] : lanes_) transport->shut();
}

void Session::free(const Allocation& allocation) {
    if (allocation.charged == 0) return;
    invoke(worker_.driver.cuMemFree_v2, static_cast<CUdeviceptr>(allocation.base));
    worker_.memory.give_back(allocation.device, allocation.charged);
}

void Session::reset(uint8_t device) {
    // What runs may use what is freed; cuMemFree and its kin wait for it, and so does this.
    invoke(worker_.driver.cuCtxSynchronize);
    for (const auto& stream : streams.take_if([&](const auto& s) { return s.device == device; })) {
        invoke(worker_.driver.cuStreamDestroy_v2, stream.handle);
    }
    for (const auto& event : events.take_if([&](const auto& e) { return e.device == device; })) {
        invoke(worker_.driver.cuEventDestroy_v2, event.handle);
    }
    for (const auto& exec : execs.take_if([&](const auto& e) { return e.device == device; })) {
        invoke(worker_.driver.cuGraphExecDestroy, exec.handle);
    }
    for (const auto& graph : graphs.take_if([&](const auto& g) { return g.device == device; })) {
        invoke(worker_.driver.cuGraphDestroy, graph.handle);
    }
    for (const Allocation& allocation : worker_.memory.take_device(this, device)) free(allocation);
}

void Session::free_all() {
    if (worker_.poisoned.load() != CUDA_SUCCESS)
        return;  // the driver's context is dead, and the process ends
    for (size_t i = 0; i < worker_.devices.size(); ++i) {
        invoke(worker_.driver.cuCtxSetCurrent, worker_.devices[i].context);
        reset(static_cast<uint8_t>(i));
        for (auto& library : libraries.take_if([&](const auto& l) { return l->device == i; })) {
            unload_library(worker_, *library);
        }
    }
    for (const Allocation& allocation : worker_.memory.take_all(this)) free(allocation);
}

void unload_library(Worker& worker, LoadedLibrary& library) {
    invoke(worker.driver.cuLibraryUnload, library.handle);
    worker.memory.give_back(library.device, library.charged);
}

}  // namespace worker
