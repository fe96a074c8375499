// Memory that both host and kernels use: managed memory, and pinned memory whose device address was asked
// for.
//
// The device's copy is ordinary device memory of the slice. Each region belongs to one side at a time:
//   - it begins with the host;
//   - before a call that may use them (a launch; a copy or memset there), all regions that belong to the host
//     are sent, and belong to the device from then on;
//   - after a call that waited for all of the device, what belongs to the device comes back, and belongs to
//   the host again.
// Where other work may still be running, a region stays with the device and is *shown*: after a call that
// waited for a stream or an event, and before a function of the program that a stream waits for. The host has
// its bytes then, and what it changes of them is sent, and nothing else: before the device's next call, or
// when the function has returned. Several threads may see a region at once, that of a function (which uses
// what is the host's, too) and one that submits work: what it was as it was shown, or sent, is kept until the
// last of them has made its next call, or returned. A region that is shown again takes from the device what
// the host has not changed. A program that
// touches such memory on the host while a kernel may use it has a race in CUDA too, on the devices that this
// library serves (no concurrent managed access). So the host sees what CUDA shows it. It costs the whole
// region each way; large data is better copied.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

namespace client {

class Call;

class SharedMemory {
  public:
    static SharedMemory& get();

    bool any() const { return count_.load(std::memory_order_acquire) > 0; }
    void add(void* host, uint64_t device_address, uint64_t bytes, uint8_t device);
    void remove(void* host);
    void to_device(Call& call);
    // Before a call that uses nothing but the device memory at this address.
    void to_device_for(Call& call, uint64_t device_address);
    // What the wait for that answers.
    CUresult to_host(Call& call);
    // A call that has sent what it uses ends.
    void end_use() { users_.fetch_sub(1, std::memory_order_release); }
    // In no order with other calls, which may wait for the caller; of the call's device, or `everywhere`.
    void show(Call& call, bool everywhere = false);
    void take_changes(Call& call);
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
        bool on_device = false;
        std::vector<std::byte> shown{};  // of one that is shown: what the device had then, and was sent since
        std::set<uint64_t> seen_by{};    // the threads to which it is shown, and those of functions
        uint64_t version = 0;            // grows when it is shown, and when that is over
    };
    bool send(Call& call, Region& region, bool copied);
    void forget_ended(Region& region);
    void show(Call& call, Region& region);
    void send_changes(Call& call, Region& region);
    void hide(Call& call, Region& region);

    std::atomic<size_t> count_{0};
    // Calls between to_device() and their end, which may still submit what uses a region. More come under
    // `moving_` alone.
    std::atomic<unsigned> users_{0};
    // A region moves, comes and goes under `moving_`, also while the worker is waited for. The regions change
    // under both, so that a function of the program needs `mutex_` alone: who moves one may wait for it.
    std::mutex moving_, mutex_;
    std::vector<Region> regions_;
};

// The variable at this address goes with its library. Nothing where cuLibraryGetManaged has not given it out.
void forget_managed_variable(uint64_t address);
// All of them. Their pages stay mapped: the program may touch them, and the next life's may lie there.
void forget_managed_variables();

}  // namespace client
