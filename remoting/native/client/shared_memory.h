// Memory that both host and kernels use: managed memory, and pinned memory whose device address was asked
// for.
//
// The device's copy is ordinary device memory of the slice. Each region belongs to one side at a time:
//   - it begins with the host;
//   - before a call that may use them (a launch; a copy or memset there), all regions that belong to the host
//     are sent, and belong to the device from then on;
//   - after a call that waited for all of the device, what belongs to the device comes back, and belongs to
//     the host again.
// The host may use a region that the device has, in two ways. One that is *shown*: where other work may still
// be running, after a call that waited for a stream or an event, and before a function of the program that a
// stream waits for. And pinned memory at any time, each side its own bytes. What the device had then, or was
// sent, is kept beside it: so what the host has changed since is known, and that alone is sent, before each
// call that may use it and when a function has returned; and what comes from the device goes to where the
// host has changed nothing. Several threads may see a region at once, that of a function (which uses what is
// the host's, too) and one that submits work: what was shown is kept until the last of them has made its next
// call, or returned.
//
// A call that cannot send, or fetch, what it must is not made, or has not waited, and answers the error; what
// was to be sent is sent by the next one. It costs the whole region each way; large data is better copied.
// docs/design/memory.md says what CUDA promises, and how this keeps it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "cuda_abi.h"

namespace client {

class Call;

class SharedMemory {
  public:
    static SharedMemory& get();

    bool any() const { return count_.load(std::memory_order_acquire) > 0; }
    // What CUDA lets the host do with memory while kernels may use it: nothing, or use other bytes of it.
    enum class Host : bool { waits, works_beside };
    void add(void* host, uint64_t device_address, uint64_t bytes, uint8_t device, Host does);
    void let(void* host, Host does);
    void remove(void* host);
    // What the call that was to use it answers; it is not made then.
    CUresult to_device(Call& call);
    // Before a call that uses nothing but the device memory at this address.
    CUresult to_device_for(Call& call, uint64_t device_address);
    // What the wait for that answers.
    CUresult to_host(Call& call);
    // A call that has sent what it uses ends.
    void end_use() { users_.fetch_sub(1, std::memory_order_release); }
    // Of the call's device, after a wait for a part of its work: what the wait answers.
    CUresult show(Call& call);
    // Before a function of the program, and after it. In no order with other calls, which may wait for it.
    void show_function(Call& call);
    void take_changes(Call& call);
    // What the host has changed of the device's memory that no call has sent, each region once; nothing where
    // others are at it.
    struct Unsent {
        const void* host;
        uint64_t bytes;
        uint64_t first;  // byte that differs
    };
    std::vector<Unsent> unsent(uint8_t device);
    // All of it is; the gate is closed (life.h).
    void forget_life();
    // The device memory at this address is gone with its context: the region stays with the host.
    void forget(uint64_t device_address);

  private:
    struct Region {
        void* host;
        uint64_t device_address;
        uint64_t bytes;
        uint8_t device;
        bool host_works_beside;
        bool on_device = false;
        // Of one that the device has and the host may use: what the device had then, and was sent since.
        std::vector<std::byte> shown{};
        std::set<uint64_t> seen_by{};  // the threads to which it is shown, and those of functions
        uint64_t version = 0;          // grows when it is shown, and when that is over
        bool told = false;             // of what is unsent
    };
    uint64_t first_change(const Region& region);
    CUresult wait_for_posted(Call& call, uint64_t somewhere);
    CUresult send(Call& call, Region& region, uint64_t first);
    CUresult send_all(Call& call, Region& region);
    void forget_ended(Region& region);
    void forget_unwatched(Region& region, CUresult sent);
    void put(Region& region, const std::vector<std::byte>& now);
    CUresult show(Call& call, Region& region);
    CUresult send_changes(Call& call, Region& region, uint64_t from = 0);
    CUresult hide(Call& call, Region& region, uint64_t from = 0);
    CUresult take_late();

    std::atomic<size_t> count_{0};
    // Calls between to_device() and their end, which may still submit what uses a region. More come under
    // `moving_` alone.
    std::atomic<unsigned> users_{0};
    std::atomic<int> late_{CUDA_SUCCESS};  // what functions could not be told
    // A region moves, comes and goes under `moving_`, also while the worker copies it. The regions change
    // under both, so that a function of the program needs `mutex_` alone. Neither is held where a function is
    // waited for.
    std::mutex moving_, mutex_;
    std::vector<Region> regions_;
};

// The host and kernels touch the variable at one address from now on (managed_variable.cc).
CUresult share_variable(uint64_t address, uint64_t bytes);
// The variable at this address goes with its library. Nothing where cuLibraryGetManaged has not given it out.
void forget_managed_variable(uint64_t address);
// All of them. Their pages stay mapped: the program may touch them, and the next life's may lie there.
void forget_managed_variables();

}  // namespace client
