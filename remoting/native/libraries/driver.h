// The driver of the program that this library is loaded in, opened at the first call that needs it: the
// forwarding client's, a software GPU's, or NVIDIA's.
#pragma once

#include <cuda.h>

#include "call.h"

namespace libraries {

struct Driver {
    GkLibraryCallFunction library_call;  // null in a driver that is not ours
    decltype(&::cuMemAlloc_v2) allocate;
    decltype(&::cuMemFree_v2) free;
    decltype(&::cuMemGetAddressRange_v2) range;
    decltype(&::cuMemcpyHtoDAsync_v2) copy_in;
    decltype(&::cuMemcpyDtoHAsync_v2) copy_out;
    decltype(&::cuMemcpy2DAsync_v2) copy_rows;
    decltype(&::cuStreamSynchronize) synchronize;
    unsigned long long (*life)(int* state);  // client/life.h; null in a driver whose processes have one life

    // The number of the process's present life: what the driver gives out is good in the life that it was
    // asked in.
    unsigned long long present_life() const { return life ? life(nullptr) : 0; }
};

// Null when there is none.
const Driver* driver();

// A function of a library, for libraries whose handles have no other settings that travel.
struct Callee {
    GkLibrary library;
    uint16_t function;
    uint8_t major;
    bool wide = false, scalars_on_device = false;
};
// Whether calls of the library can be done: NOT_SUPPORTED where nothing does them, NOT_INITIALIZED without a
// driver.
CUresult look(GkLibrary library, uint8_t major);
// What does them, which is asked once in a life of the process.
GkEnd end_of(GkLibrary library, uint8_t major);
// Work of the stream.
CUresult post(CUstream stream, const Callee& callee, const void* arguments, size_t bytes);

// A little memory of the device, for values on their way to or from the host.
class Scratch {
  public:
    static constexpr size_t kBytes = 256;
    Scratch() = default;
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    // In the current context; anew where it has gone, with a slice that was given back or a context that was
    // destroyed.
    CUresult address(CUdeviceptr& address);

  private:
    bool is_there() const;

    CUdeviceptr memory_ = 0;
    unsigned long long life_ = 0;
};

}  // namespace libraries
