// What the whole process shares. Made once in main, never destroyed.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "context_limits.h"
#include "device_output.h"
#include "devices.h"
#include "driver.h"
#include "ending_frees.h"
#include "host_mapping.h"
#include "host_memory.h"
#include "image_cache.h"
#include "local_memory.h"
#include "memory_ledger.h"
#include "options.h"
#include "own_work.h"
#include "pool.h"
#include "session.h"
#include "slice_room.h"
#include "status.h"

namespace worker {

// How the log calls the session with this id.
std::string short_name(const std::string& id);

struct Worker {
    static constexpr size_t kMaxSessions = 64;

    Worker(int control_fd, std::vector<uint64_t> limits) : memory(std::move(limits)), status(control_fd) {}

    Driver driver;
    std::vector<Device> devices;
    MemoryLedger memory;
    Pools pools;
    EndingFrees ending_frees{*this};
    EndingMappings ending_mappings{*this};
    SliceRoom room{*this};  // asked before memory
    ContextLimits limits;
    LocalMemory local_memory;
    ImageCache images;
    HostMemory host_memory;    // of the whole process
    std::mutex globals_mutex;  // of LoadedLibrary::globals
    SharedStreams shared_streams;
    Status status;
    DeviceOutput output;

    // The error that has ended the lease's context, or CUDA_SUCCESS. It stays until this process ends.
    std::atomic<int> poisoned{CUDA_SUCCESS};
    // Takes note of a driver's answer: a fatal one poisons the worker, and the agent is told once. False when
    // it is one that ends contexts and this context goes on.
    bool note(CUresult result, const char* call);

    // The driver has freed it, and no stream needs to come to that.
    void freed(const Allocation& allocation);

    // The session with this id, made if it is new; null when there are too many.
    std::shared_ptr<Session> enter(const std::string& id);
    // Null when there is none.
    std::shared_ptr<Session> find(const std::string& id);
    // A lane of `session` has ended; `last` says that it was the session's only one. A poisoned worker ends
    // with its last session: the agent starts another for whoever comes next.
    void leave(const std::string& id, const std::shared_ptr<Session>& session);

    std::vector<std::shared_ptr<Session>> all_sessions();
    // Whether no other session has made this process keep more.
    bool has_most(Session& session);

    // Ends the sessions whose clients have gone in the middle of a call; and this process, when there is no
    // other session and a kernel that cannot be stopped alone would hold up whoever comes next.
    void end_abandoned();

    // Ends this process; the agent starts another for whoever comes next.
    [[noreturn]] void end(const std::string& why);

    std::atomic<size_t> mappings{0};  // by cuMemMap and of pinned memory, of all sessions

  private:
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Session>> sessions_;
};

}  // namespace worker
