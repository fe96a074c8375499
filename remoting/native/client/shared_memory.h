// Memory that both host and kernels use: managed memory, and pinned memory whose device address was asked
// for.
//
// The device's copy is ordinary device memory of the slice. Each region belongs to one side at a time:
//   - it begins with the host;
//   - before a call that may use device memory (launch, copy, memset), all regions that belong to the host
//   are
//     sent, and belong to the device from then on;
//   - after a call that waited for the device, what belongs to the device comes back, once all its work is
//   done,
//     and belongs to the host again.
// A program that touches such memory on the host while a kernel may use it has a race in CUDA too, on the
// devices that this library serves (no concurrent managed access). So the host sees what CUDA shows it. It
// costs the whole region each way; large data is better copied.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
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
    void to_host(Call& call);
    // The context of `device` has ended: its regions stay with the host.
    void forget(uint8_t device);

  private:
    struct Region {
        void* host;
        uint64_t device_address;
        uint64_t bytes;
        uint8_t device;
        bool on_device = false;
    };

    std::atomic<size_t> count_{0};
    std::mutex mutex_;
    std::vector<Region> regions_;
};

}  // namespace client
