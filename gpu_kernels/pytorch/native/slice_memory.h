// How the processor reaches the slice's memory: the one place that knows whether a device address is an
// address of this process. A later way to reach it (mapping the slice's memory on one host) is a third
// `SliceMemory`, and nothing else changes.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <cstddef>

namespace gk {

// Bytes of a storage, from `first` on.
struct Extent {
    size_t first = 0, bytes = 0;
};

// `rows` runs of `bytes`, each `pitch` after the one before; `first` is where the first one begins.
struct Block {
    size_t first = 0, bytes = 0, pitch = 0, rows = 1;
};

class SliceMemory {
  public:
    virtual ~SliceMemory() = default;
    // Whether the processor works on the slice's memory itself. Then results are made there at once, and
    // `fetch` and `put` have nothing to do.
    virtual bool in_place() const = 0;
    // The processor's memory for a storage of the device; its bytes are unknown until they are fetched.
    virtual at::DataPtr open(const c10::Storage& device) const = 0;
    // Returns when all has run that an operation of `stream` would wait for. Only where the processor works
    // in place: what is copied comes in the stream's order anyway.
    virtual void wait(const c10::Stream& stream) const = 0;
    // The device's bytes, as all earlier work of `stream` leaves them.
    virtual void fetch(void* host, const c10::Storage& device, Extent extent,
                       const c10::Stream& stream) const = 0;
    // Later work of `stream` sees them.
    virtual void put(const void* host, const c10::Storage& device, Block block,
                     const c10::Stream& stream) const = 0;
};

// The straight software GPU: a device address is an address of this process.
const SliceMemory& own_memory();
// Any other: what an operator touches is copied there and back by the CUDA runtime. Throws where there is
// none.
const SliceMemory& copied_memory();

}  // namespace gk
