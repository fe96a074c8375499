// One client process of the lease: its handles, the order of its calls, the error it has not heard of yet.
// Shared by the threads of its lanes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver.h"
#include "image_cache.h"
#include "memory_ledger.h"
#include "order.h"
#include "protocol.h"
#include "transport.h"

namespace worker {

struct Worker;

struct LoadedKernel {
    CUkernel handle = nullptr;
    std::vector<wire::ParamRow> params;
    uint32_t param_bytes = 0;
};

struct LoadedLibrary {
    CUlibrary handle = nullptr;
    uint8_t device = 0;
    uint64_t charged = 0;
    std::vector<LoadedKernel> kernels;
    std::vector<uint64_t> globals;  // addresses that the ledger knows because of this library
};

// The session's handles of one kind.
template <typename T>
class Handles {
  public:
    // Whether `handle` is one that a client may mint now.
    bool may_add(uint64_t handle, wire::HandleKind kind) {
        const std::lock_guard lock(mutex_);
        return wire::handle_kind(handle) == kind && map_.size() < wire::kMaxHandles && !map_.contains(handle);
    }
    bool add(uint64_t handle, T value) {
        const std::lock_guard lock(mutex_);
        return map_.emplace(handle, std::move(value)).second;
    }
    bool find(uint64_t handle, T& value) {
        const std::lock_guard lock(mutex_);
        auto found = map_.find(handle);
        if (found == map_.end()) return false;
        value = found->second;
        return true;
    }
    bool take(uint64_t handle, T& value) {
        const std::lock_guard lock(mutex_);
        auto found = map_.find(handle);
        if (found == map_.end()) return false;
        value = std::move(found->second);
        map_.erase(found);
        return true;
    }
    template <typename Predicate>
    std::vector<T> take_if(Predicate predicate) {
        std::vector<T> taken;
        const std::lock_guard lock(mutex_);
        for (auto entry = map_.begin(); entry != map_.end();) {
            if (predicate(entry->second)) {
                taken.push_back(std::move(entry->second));
                entry = map_.erase(entry);
            } else {
                ++entry;
            }
        }
        return taken;
    }

  private:
    std::mutex mutex_;
    std::unordered_map<uint64_t, T> map_;
};

template <typename T>
struct OnDevice {
    T handle{};
    uint8_t device = 0;
};

class Session {
  public:
    Session(Worker& worker, std::string name) : worker_(worker), name_(std::move(name)) {}

    // For the log; not secret.
    const std::string& name() const { return name_; }

    Handles<OnDevice<CUstream>> streams;
    Handles<OnDevice<CUevent>> events;
    Handles<OnDevice<CUgraph>> graphs;
    Handles<OnDevice<CUgraphExec>> execs;
    Handles<std::shared_ptr<LoadedLibrary>> libraries;
    // Captures that were begun and have not ended.
    std::atomic<int> captures{0};
    Order order;

    // The first error of a posted call since the last asked one.
    void hold(CUresult error, const char* call);
    CUresult take_held();

    // An upload under way; null when there are too many.
    std::shared_ptr<Upload> upload(const wire::Digest& digest, uint64_t total);
    void end_upload(const wire::Digest& digest);

    // False when this lane number is taken, or too many are open.
    bool add_lane(uint32_t lane, wire::Transport* transport);
    // True when it was the last one.
    bool remove_lane(uint32_t lane);
    // Ends all lanes: without one of them the order of the others has a hole.
    void end();
    bool ended() const { return ended_.load(std::memory_order_acquire); }

    // Frees what the session has on `device`.
    void reset(uint8_t device);
    // Frees everything; no lane is left.
    void free_all();

  private:
    void free(const Allocation& allocation);

    Worker& worker_;
    const std::string name_;
    std::atomic<int> held_{CUDA_SUCCESS};
    std::atomic<bool> ended_{false};
    std::mutex mutex_;
    std::map<uint32_t, wire::Transport*> lanes_;
    std::map<wire::Digest, std::shared_ptr<Upload>> uploads_;
};

// Driver calls that give things back; shared by calls and by the end of a session.
void unload_library(Worker& worker, LoadedLibrary& library);

}  // namespace worker
