// Memory pools of the driver, and what each holds of the slice.
//
// A pool is charged what the driver says that it has reserved, or what is allocated from it, whichever is
// more. That is right whatever a driver does with memory that was freed in a stream: until the stream comes
// to the free, the bytes are reserved; afterwards they are for as long as the pool keeps them for later (its
// release threshold); and what a stream has freed and allocates again before it got there is reserved once.
// So programs may choose their thresholds, and a slice that has no room trims its pools first (slice_room.h).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cuda_abi.h"

namespace worker {

struct Worker;

// Held by the session's handle, by each allocation from it and by Pools; so it is there for as long as it may
// hold something.
class Pool {
  public:
    // `own`: made here, and destroyed with this.
    Pool(Worker& worker, uint8_t device, CUmemoryPool handle, bool own)
        : device(device), handle(handle), worker_(worker), own_(own) {}
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    const uint8_t device;
    const CUmemoryPool handle;

    // Allocates `bytes` in the order of `stream`. The slice has given `charge`, which this pool has from now
    // on; the caller has it still when this fails. OUT_OF_MEMORY also where the driver had to reserve so much
    // that the slice is passed: the memory is then freed again.
    CUresult allocate(uint64_t bytes, uint64_t charge, CUstream stream, CUdeviceptr& address);
    // An allocation's free was taken in by the driver; it stays reserved until it has been executed.
    void freed(uint64_t charge);
    // Asks the driver what it has reserved, and gives back what is more.
    void look();
    // Lets go of what it keeps for later, then looks.
    void trim();
    // Charged, and allocated to nobody.
    uint64_t idle();

  private:
    void settle(uint64_t reserved);

    Worker& worker_;
    const bool own_;
    std::mutex mutex_;
    uint64_t allocated_ = 0;  // charges of its allocations
    uint64_t charged_ = 0;    // against the slice
};

// All pools of the lease.
class Pools {
  public:
    // The driver may reserve tens of MiB for each. Of all sessions together.
    static constexpr size_t kMost = 1024;

    // Null, with the driver's word in `error`, where it makes none, or there are too many.
    std::shared_ptr<Pool> create(Worker& worker, uint8_t device, uint64_t max_bytes, CUresult& error);
    // The device's own, for a session that could have none of its own. Null when the driver has no pools.
    std::shared_ptr<Pool> of_device(Worker& worker, uint8_t device);

    std::vector<std::shared_ptr<Pool>> all();
    // Destroys those that nobody uses and that hold nothing.
    void drop_unused();

  private:
    std::mutex mutex_;
    std::vector<std::shared_ptr<Pool>> pools_;
};

}  // namespace worker
