// How the processor reaches the slice's memory: the one place that knows whether a device address is an
// address of this process.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>

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
    // Whether the processor works on the slice's memory itself, wherever it reaches it. Then results are made
    // there at once, and `fetch` and `put` have nothing to do.
    virtual bool in_place() const = 0;
    // Whether the processor reaches these bytes of the device under their own address.
    virtual bool reaches(const void* device, size_t bytes) const = 0;
    // The processor's memory for a storage of the device; its bytes are unknown until they are fetched.
    virtual at::DataPtr open(const c10::Storage& device) const = 0;
    // Returns when all has run that an operation of `stream` would come after. Only where the processor works
    // in place: what is copied comes in the stream's order anyway.
    virtual void wait(const c10::Stream& stream) const = 0;
    // The device's bytes, as all earlier work of `stream` leaves them.
    virtual void fetch(void* host, const c10::Storage& device, Extent extent,
                       const c10::Stream& stream) const = 0;
    // Later work of `stream` sees them. `host` may be anywhere, and of `device` itself nothing is moved.
    virtual void put(const void* host, const c10::Storage& device, Block block,
                     const c10::Stream& stream) const = 0;
};

enum class Way {
    kCopied = 0,  // what an operator touches is copied there and back by the CUDA runtime
    kOwn = 1,     // the straight software GPU: a device address is an address of this process
    kMapped = 2,  // forwarded: mapped here at the device's addresses, where the worker is on this host
};
// What can be mapped nowhere is copied. Throws where there is no CUDA runtime.
const SliceMemory& memory_of(Way way);

// How much of operands and results this process has copied, since it could not work on it in place.
uint64_t copied_bytes();

}  // namespace gk
