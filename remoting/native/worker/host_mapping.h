// Pinned memory of a client on this host, in this process at the same address, for kernels to use in place
// (docs/design/shared-memory.md, "Pinned memory"). Its pages are the client's and on its account: the file
// has all of them before it is mapped here, and a seal keeps whoever has it from taking one out.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda_abi.h"

namespace worker {

struct Worker;

class HostMapping {
  public:
    // All of `file`, a client's: what it is and holds is looked at. Kernels reach `bytes` of it. The thread's
    // context is that of `device`.
    static CUresult make(Worker& worker, int file, uint64_t address, uint64_t bytes, uint8_t device,
                         std::shared_ptr<HostMapping>& made);
    // Nothing of the session's uses it any more.
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

}  // namespace worker
