// What the front needs of the library that it is in: the forwarding client or the software GPU. Each defines
// these functions. All may throw Failure; none may call an entry point of the front.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "context.h"
#include "cuda/failure.h"
#include "cuda/managed_advice.h"
#include "cuda/occupancy.h"

namespace front {

using cuda::check;
using cuda::refuse;
using cuda::require;

inline constexpr size_t kMostDevices = 16;  // of a process

// Memory that CUDA knows of, as a pointer into it finds it: an allocation, a mapping or a variable.
struct Memory {
    uint64_t base = 0, bytes = 0;
    uint64_t id = 0;  // unique in the process; 0 for what was not allocated
    CUdevice device = 0;
    uint64_t owner = 0;              // which context has it; see platform::owner
    CUmemoryPool pool = nullptr;     // that it is from
    bool on_device = false;          // managed memory too
    bool managed = false;            // allocated so
    CUdeviceptr device_address = 0;  // of the pointer, for kernels; 0: it has none
};

namespace platform {

void require_initialised();  // cuInit has succeeded, and this is not the child of a fork

// Devices. What takes one is given one that is there.
int driver_version();  // answered before cuInit too
int device_count();
void require_device(CUdevice device);
void require_device_to_leave(CUdevice device);  // for what gives something up: no life begins for it
std::string device_name(CUdevice device);
CUuuid device_uuid(CUdevice device);
size_t total_memory(CUdevice device);
std::string pci_bus_id(CUdevice device);  // empty where it has none
int attribute(CUdevice device, CUdevice_attribute attribute);

// Contexts. A device's primary one keeps its handle from one life to the next.
std::vector<uint64_t>& context_stack();      // the calling thread's: handles, of which the last is current
std::shared_ptr<Context> current_context();  // lives; throws INVALID_CONTEXT, or CONTEXT_IS_DESTROYED
std::shared_ptr<Context> find_context(CUcontext handle);  // null for what is none that lives
void require_working(const Context& context);             // no error has ended it
bool in_callback();  // the calling thread is within a function that a stream calls
CUcontext begin_context(CUdevice device, unsigned flags, unsigned api_version);
// Throws CONTEXT_IS_DESTROYED where another thread was first.
void end_context(Context& context);
CUcontext primary_context(CUdevice device);
// The two that begin and end a primary one are called by one thread at a time.
void begin_primary_context(CUdevice device, unsigned flags);
// Whose it is, where it has lived in an earlier life of the process and not yet in this.
std::optional<CUdevice> primary_to_begin_again(CUcontext handle);
// An event of the context's own takes all work that the context has now. All work that it is given from now
// on waits for an event.
void record_context(Context& context, CUevent event);
void hold_context(Context& context, CUevent event);
void prefer_cache(CUfunc_cache config);  // the current context's kernels do
struct StreamPriorities {
    int least = 0, greatest = 0;  // the greatest is the lowest number
};
StreamPriorities stream_priorities(CUdevice device);

// The device of the calling thread's context, which lives. With `working`, one that no error has ended, and
// not within a function that a stream calls.
inline CUdevice require_context() {
    return current_context()->device;
}
inline CUdevice require_working_context() {
    return working_context()->device;
}

// What a program passes as a stream.
void require_stream(CUstream stream);

// Kernels, as the current context has them.
cuda::Multiprocessor multiprocessor(CUdevice device);
cuda::KernelNeeds kernel_needs(CUfunction function);

// Memory.
std::optional<Memory> memory_at(CUdeviceptr address);
CUcontext owner(const Memory& memory);  // null when it has ended, and for what belongs to no context
// The managed memory, or variable, that holds the address.
std::optional<cuda::ManagedMemory> managed_memory_at(CUdeviceptr address);
// The program has said, or no longer says, which stream alone uses the managed memory with this base.
void attach(CUdeviceptr base, bool attached);

}  // namespace platform

// The frame of an entry point; see cuda::guarded.
template <class Body>
CUresult call(Body&& body) noexcept {
    return cuda::guarded([&] {
        platform::require_initialised();
        return body();
    });
}

}  // namespace front
