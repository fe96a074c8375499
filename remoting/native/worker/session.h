// One client process of the lease: its handles, the order of its calls, the error it has not heard of yet.
// Shared by the threads of its lanes.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "copies_back.h"
#include "cuda/handle_table.h"
#include "descriptor.h"
#include "driver.h"
#include "host_budget.h"
#include "host_calls.h"
#include "image_cache.h"
#include "jit.h"
#include "memory_ledger.h"
#include "notices.h"
#include "order.h"
#include "own_work.h"
#include "pool.h"
#include "protocol.h"
#include "software.h"
#include "textures.h"
#include "transport.h"
#include "virtual_memory.h"

namespace worker {

struct Worker;
class BuiltGraph;

struct LoadedKernel {
    CUkernel handle = nullptr;
    uint32_t param_bytes = 0;
    uint32_t local_bytes = 0;  // a thread's frame
};

// Unloaded with the last of the session, the launches and the graphs that use it.
struct LoadedLibrary {
    LoadedLibrary(Worker& worker, uint8_t device) : worker(worker), device(device) {}
    ~LoadedLibrary();
    LoadedLibrary(const LoadedLibrary&) = delete;
    LoadedLibrary& operator=(const LoadedLibrary&) = delete;

    Worker& worker;
    const uint8_t device;
    CUlibrary handle = nullptr;
    uint64_t charged = 0;        // for the image, and for the variables that it defines
    ImageCache::Image prepared;  // what the driver has loaded
    ImageCache::Image image;     // these two to load it anew
    std::shared_ptr<JitOptions> options;
    std::vector<LoadedKernel> kernels;
    std::vector<uint64_t> globals;  // addresses that the ledger knows because of this library
};

// The session's handles of one kind, which its client mints.
template <typename T>
class Handles : public cuda::HandleTable<uint64_t, T> {
  public:
    // Whether `handle` is one that a client may mint now.
    bool may_add(uint64_t handle, wire::HandleKind kind) const {
        return wire::handle_kind(handle) == kind && this->size() < wire::kMaxHandles &&
               !this->contains(handle);
    }
};

// A graph's description while it comes in parts.
struct GraphDescription {
    explicit GraphDescription(HostBudget& budget) : share(budget) {}
    HostShare share;
    bool no_room = false;  // not all of it is here
    std::vector<std::byte> bytes{};
};

template <typename T>
struct OnDevice {
    T handle{};
    uint8_t device = 0;
};

class Session : public std::enable_shared_from_this<Session> {
  public:
    Session(Worker& worker, std::string name);

    // For the log; not secret.
    const std::string& name() const { return name_; }

    Handles<OnDevice<CUstream>> streams;
    Handles<OnDevice<CUevent>> events;
    Handles<std::shared_ptr<BuiltGraph>> graphs;
    Handles<std::shared_ptr<Pool>> pools;
    Handles<std::shared_ptr<Physical>> physicals;
    Handles<Array> arrays;  // levels with them
    Handles<MipmappedArray> mipmapped_arrays;
    Handles<std::shared_ptr<TextureObject>> textures, surfaces;  // by the driver's values
    VirtualMemory addresses;
    Handles<std::shared_ptr<LoadedLibrary>> libraries;
    const std::shared_ptr<HostCalls> host_calls;
    CopiesBack copies_back;
    std::atomic<uint64_t> graph_image_bytes{0};              // of all graphs (graph.h)
    std::mutex graphs_mutex;                                 // of the two that follow
    std::map<uint64_t, GraphDescription> graph_parts;        // descriptions that come in parts
    std::vector<std::shared_ptr<BuiltGraph>> ending_graphs;  // destroyed, but running
    OwnWork own_work;
    Order order;
    Notices notices;
    SoftwareSession software;
    // Whether kernels of it may still print (device_output.h).
    std::atomic<bool> has_launched{false};

    // The pool that takes the place of the device's default one: each process has its own, with its own
    // settings, as it has without a worker. Null when the driver has no pools.
    std::shared_ptr<Pool> default_pool(uint8_t device);

    // Tells the person and the log why a call finds no room; its answer.
    CUresult refuse(const std::string& why);
    // The same of a JIT option that is none of the allowlist, once a session.
    CUresult refuse_option(uint32_t option);

    // The first error of a posted call since the last asked one.
    void hold(CUresult error, const char* call);
    CUresult take_held();

    // An upload under way; null when there are too many.
    std::shared_ptr<Upload> upload(const wire::Digest& digest, uint64_t total);
    void end_upload(const wire::Digest& digest);

    // False when this lane number is taken, or too many are open.
    bool add_lane(uint32_t lane, wire::Transport* transport);
    // True when it was the last one; the session has ended then, so that nobody enters what is being freed.
    bool remove_lane(uint32_t lane);
    // Ends all lanes: without one of them the order of the others has a hole.
    void end();
    bool ended() const { return ended_.load(std::memory_order_acquire); }

    // The stream is about to be taken from `streams` and destroyed; its work may go on.
    void stream_ends(const OnDevice<CUstream>& stream);
    // Memory that the stream's work uses: when the stream has come to its end.
    void free_in(CUstream stream, uint64_t address);

    // Of this unix socket the client's end is where it passes descriptors. Owns it; the first one stays,
    // and hears that it does.
    void use_passage(int socket);
    // The descriptor that came by that with this name; -1 when there is none. What came before it and was not
    // taken is closed.
    int take_passed(uint64_t name);
    // For the last lane's thread, when the session has ended.
    void close_passage();

    // What it has, roughly by what the kinds of things cost: to compare sessions.
    uint64_t weight();

    // Frees one thing: a handle, or an allocation by its address. What is gone already is left.
    void give_back(uint64_t owned);
    // False when the session has no such array that can be destroyed.
    bool end_array(uint64_t array);
    // False when the session has no such library.
    bool unload(uint64_t library);
    // Frees everything; no lane is left.
    void free_all();
    // A call that waits for a kernel reads no connection, so nobody else sees that the client has gone: ends
    // the session, and what it runs, when no lane has a client any more. Asked now and then, by one thread;
    // true when a call has lasted since and its kernel cannot be stopped alone.
    bool end_if_abandoned();
    // No lane's client is there.
    bool abandoned();

  private:
    void reset(uint8_t device);
    void free(const Allocation& allocation);

    Worker& worker_;
    const std::string name_;
    std::atomic<int> held_{CUDA_SUCCESS};
    std::atomic<bool> ended_{false};
    std::atomic<bool> option_refused_{false};
    std::optional<std::chrono::steady_clock::time_point> abandoned_since_;  // of end_if_abandoned alone
    std::mutex mutex_;
    std::map<uint32_t, wire::Transport*> lanes_;
    // Who receives or closes a descriptor may wait, for what the client has made of it: without the lock,
    // which the thread that takes connections holds too.
    std::shared_ptr<wire::Descriptor> passage();
    std::mutex passage_mutex_;  // of passage_
    std::shared_ptr<wire::Descriptor> passage_;
    std::mutex pools_mutex_;                                  // of default_pools_
    std::map<uint8_t, std::shared_ptr<Pool>> default_pools_;  // by device
    std::map<wire::Digest, std::shared_ptr<Upload>> uploads_;
};

}  // namespace worker
