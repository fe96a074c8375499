// Pinned memory of a client on this host, in this process at the same address, for kernels to use in place
// (docs/design/shared-memory.md, "Pinned memory"). Its pages are the client's and on its account: the file
// has all of them before it is mapped here, and a seal keeps whoever has it from taking one out.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_abi.h"

namespace worker {

struct Worker;

class HostMapping {
  public:
    // All of `file`, a client's: what it is and holds is looked at. Kernels reach `bytes` of it. The thread's
    // context is that of `device`.
    static CUresult make(Worker& worker, int file, uint64_t address, uint64_t bytes, uint8_t device,
                         std::shared_ptr<HostMapping>& made);
    // Nothing of the session's uses it any more. What the driver knows of goes by way of the ending mappings.
    ~HostMapping();
    HostMapping(const HostMapping&) = delete;
    HostMapping& operator=(const HostMapping&) = delete;

  private:
    HostMapping(Worker& worker, void* memory, uint64_t bytes, uint8_t device)
        : worker_(worker), memory_(memory), bytes_(bytes), device_(device) {}
    bool close_file(int file) const;
    CUresult give_to_driver();

    Worker& worker_;
    void* const memory_;
    const uint64_t bytes_;
    const uint8_t device_;
    bool registered_ = false;
};

// Mappings that their sessions have let go of. The driver lets go of one when the work of all sessions has
// ended, some of which may never end: no lane waits for that, but a thread that does nothing else.
class EndingMappings {
  public:
    explicit EndingMappings(Worker& worker) : worker_(worker) {}
    // False when the thread cannot be started.
    bool start();
    void add(void* memory, uint64_t bytes, uint8_t device);

  private:
    struct Ending {
        void* memory;
        uint64_t bytes;
        uint8_t device;
    };
    [[noreturn]] void run();
    void end(const Ending& ending);

    Worker& worker_;
    std::mutex mutex_;  // of what follows
    std::condition_variable changed_;
    std::vector<Ending> waiting_;
    bool runs_ = false;
};

}  // namespace worker
