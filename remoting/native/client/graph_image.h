// The ranges of the program's memory that a graph's copies use, and their bytes on the worker: the image of a
// launch (wire/graph_wire.h says how they travel).
#pragma once

#include <cstdint>
#include <vector>

#include "graph_wire.h"

namespace client {

class Call;

// A range of the program's memory; `offset` is its place in the image.
struct HostRange {
    uint64_t start = 0, bytes = 0, offset = 0;
};

// Where the host ends of a graph's copies lie in its image.
class ImageLayout {
  public:
    // `ends`: boxes in the program's memory, in any order. Those that overlap share their place.
    explicit ImageLayout(std::vector<wire::Box> ends);
    ImageLayout() = default;
    uint64_t bytes() const { return bytes_; }
    uint64_t offset_of(uint64_t address) const;

  private:
    std::vector<HostRange> ranges_;  // in order, apart from each other
    uint64_t bytes_ = 0;
};

// From the image of a launch, as `opcode` has it, to its place in the program's memory: a box. What lies
// between its rows stays the program's. NOT_READY when the launch has not ended, NOT_FOUND when it has
// failed; what cannot be had is left as it is.
CUresult bring(Call& call, uint64_t graph, uint16_t opcode, const wire::Box& to, uint64_t offset, bool wait);
// The other way, to the image of the launch that waits for a function.
void give(Call& call, uint64_t graph, const wire::Box& from, uint64_t offset);

}  // namespace client
