// Memory that graphs allocate. Its address is that of its node for as long as a graph, an executable graph or
// the program holds it; a launch only changes whether the program may use it. So the bytes count while they
// could be used, and not only between a launch and a free.
#pragma once

#include <memory>

#include "failure.h"

namespace graphs {

class Allocation : public std::enable_shared_from_this<Allocation> {
  public:
    static std::shared_ptr<Allocation> make(uint8_t device, size_t bytes);
    ~Allocation();
    Allocation(const Allocation&) = delete;
    Allocation& operator=(const Allocation&) = delete;

    const uint8_t device;
    const size_t bytes;
    const CUdeviceptr address;
    // Under the frame's lock: the id of the graph that has the free node, 0 while none has; and of the graph
    // that allocates it.
    unsigned owner = 0, freed_by = 0;

    // A launch allocates or frees it. False when it is in that state already.
    bool set_live(bool live);

  private:
    Allocation(uint8_t device, size_t bytes, CUdeviceptr address)
        : device(device), bytes(bytes), address(address) {}
    bool live_ = false;  // under the mutex of memory.cc
};
using AllocationRef = std::shared_ptr<Allocation>;

AllocationRef find_allocation(CUdeviceptr address);  // null when no graph has it

// cuMemFree and cuMemFreeAsync: false when the address is no graph's. Throws INVALID_VALUE when the program
// does not hold it now, or when its own graph frees it.
bool free_of_graph(CUdeviceptr address);

struct MemoryFigures {
    uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};
MemoryFigures memory_figures(uint8_t device);
void reset_high(uint8_t device, bool used, bool reserved);
void forget_allocations();

}  // namespace graphs
