// What the whole process shares. Made once in main, never destroyed.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "devices.h"
#include "driver.h"
#include "image_cache.h"
#include "memory_ledger.h"
#include "options.h"
#include "session.h"
#include "status.h"

namespace worker {

// How the log calls the session with this id.
std::string short_name(const std::string& id);

struct Worker {
    static constexpr size_t kMaxSessions = 64;
    static constexpr size_t kMaxLanes = 512;  // of all sessions

    Worker(int control_fd, std::vector<uint64_t> limits) : memory(std::move(limits)), status(control_fd) {}

    Driver driver;
    std::vector<Device> devices;
    MemoryLedger memory;
    ImageCache images;
    std::mutex globals_mutex;  // of LoadedLibrary::globals
    Status status;

    // The error that has ended the lease's context, or CUDA_SUCCESS. It stays until this process ends.
    std::atomic<int> poisoned{CUDA_SUCCESS};
    // Takes note of a driver's answer: a fatal one poisons the worker, and the agent is told once.
    void note(CUresult result, const char* call);

    // The session with this id, made if it is new; null when there are too many.
    std::shared_ptr<Session> enter(const std::string& id);
    // A lane of `session` has ended; `last` says that it was the session's only one. A poisoned worker ends
    // with its last session: the agent starts another for whoever comes next.
    void leave(const std::string& id, const std::shared_ptr<Session>& session);

    std::atomic<size_t> lanes{0};

  private:
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Session>> sessions_;
};

}  // namespace worker
