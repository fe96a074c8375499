// What the front needs of the library that it is in: the forwarding client or the software GPU. Each defines
// these functions. All may throw Failure; none may call an entry point of the front.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "context.h"
#include "cuda/array_shape.h"
#include "cuda/copy_request.h"
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
    unsigned flags = 0;              // of memory of the host, as it was allocated or registered
    bool on_device = false;          // managed memory too
    bool managed = false;            // allocated so
    CUdeviceptr device_address = 0;  // of the pointer, for kernels; 0: it has none
};

struct MemoryInfo {
    size_t free, total;
};

struct Pitched {
    CUdeviceptr address;
    size_t pitch;
};

// A memory pool. Pools are of one device each.
struct Pool {
    CUdevice device = 0;
    uint64_t max_bytes = 0;        // 0: no limit of its own
    uint32_t accessible_from = 0;  // a bit for each other device
    bool is_default = false;
};

struct Stream {
    uint64_t number = 0;  // unique in the process, of default streams too, and never another stream's
    CUdevice device = 0;
    uint64_t owner = 0;  // which context has it; see platform::owner
    unsigned flags = 0;
    int priority = 0;
};

// Whether the caller may rely on a copy's effect from any stream, or on the host, when the call returns.
enum class Wait { yes, no };

// As the program gave it.
struct Texture {
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC sampling;
    std::optional<CUDA_RESOURCE_VIEW_DESC> view;
};

struct Event {
    uint64_t key = 0;      // to captures, as graphs::platform::event gives it
    uint64_t context = 0;  // as graphs::Stream has it
};

namespace platform {

void require_initialised();  // cuInit has succeeded, and this is not the child of a fork
void require_alive();        // no error has ended the life of the process, and it is not between two

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
// Nobody finds it any more, and its handle may be the next one's. What is returned does the rest, which may
// wait for functions of the program: it is called without a lock. Throws CONTEXT_IS_DESTROYED where another
// thread was first.
std::function<void()> end_context(Context& context);
CUcontext primary_context(CUdevice device);
// The two that begin and end a device's primary one are called by one thread at a time.
void begin_primary_context(CUdevice device, unsigned flags);
// Whose it is, where it has lived in an earlier life of the process and not yet in this.
std::optional<CUdevice> primary_to_begin_again(CUcontext handle);
// An event of the context's own takes all work that the context has now. All work that it is given from now
// on waits for an event.
void record_context(Context& context, CUevent event);
void hold_context(Context& context, CUevent event);
void prefer_cache(CUfunc_cache config);  // the current context's kernels do

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

// Streams and events. Those with whom something is done are looked up where it is done: what takes a handle
// refuses what is none, and an event of another context than its stream's.
Stream stream(CUstream handle);  // of a context that no error has ended
CUcontext owner(const Stream& stream);
struct StreamPriorities {
    int least = 0, greatest = 0;  // the greatest is the lowest number
};
StreamPriorities stream_priorities(CUdevice device);
CUstream make_stream(unsigned flags, int priority);
void end_stream(CUstream stream);
Event event(CUevent handle);
CUevent make_event(unsigned flags);
void end_event(CUevent event);
void record(CUevent event, CUstream stream);
void wait_in_stream(CUstream stream, CUevent event);  // which may be of any context
CUresult query(CUevent event);
CUresult wait(CUevent event);

// Allocation, for the calling thread's context or the stream's, which works. What frees refuses what was not
// allocated so.
MemoryInfo memory_info();
CUdeviceptr allocate(size_t bytes);
Pitched allocate_pitched(size_t width, size_t rows, unsigned element);
CUdeviceptr allocate_managed(size_t bytes, bool attached);                         // see attach
CUdeviceptr allocate_in_stream(size_t bytes, CUmemoryPool pool, CUstream stream);  // null: the current pool
// It was another life's, and is the program's no longer. Managed memory is not freed in a stream.
bool freed_earlier(CUdeviceptr address, bool in_stream);
void free(CUdeviceptr address);
void free_in_stream(CUdeviceptr address, CUstream stream);
void* pin(CUdevice device, size_t bytes, unsigned flags);
void unpin(void* memory);
void register_host(CUdevice device, void* memory, size_t bytes, unsigned flags);
void unregister_host(void* memory);
CUdeviceptr device_pointer(void* host_memory);

// Copies. What the request says of an end's kind counts only for memory that nobody knows: a pointer says
// itself where it points to.
CUresult copy(const cuda::CopyRequest& request, CUstream stream, Wait wait);

// Arrays, of shapes that were checked, for the calling thread's context. What takes a handle refuses what is
// none: INVALID_HANDLE.
CUarray make_array(const cuda::ArrayShape& shape);
CUmipmappedArray make_mipmapped_array(const cuda::ArrayShape& shape);
cuda::ArrayShape array_shape(CUarray array);
cuda::ArrayShape array_shape(CUmipmappedArray array);
CUdevice array_device(CUarray array);
CUdevice array_device(CUmipmappedArray array);
CUarray array_level(CUmipmappedArray array, unsigned level);  // of those that there are
void end_array(CUarray array);                                // which is no level of a mipmapped one
void end_mipmapped_array(CUmipmappedArray array);

// Pools. What takes one refuses what is none. Of attributes only those that change are asked and set.
Pool pool(CUmemoryPool pool);
CUmemoryPool make_pool(CUdevice device, uint64_t max_bytes);
void end_pool(CUmemoryPool pool);  // then the default one is current where it was
CUmemoryPool default_pool(CUdevice device);
CUmemoryPool current_pool(CUdevice device);  // which allocation in streams takes from
void set_current_pool(CUdevice device, CUmemoryPool pool);
uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute);
void set_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t value);
void trim_pool(CUmemoryPool pool, uint64_t bytes_to_keep);
void set_pool_access(CUmemoryPool pool, CUdevice device, bool granted);  // of another device than its own

// Texture and surface objects, of descriptors that were checked, for the calling thread's context. What takes
// an object refuses what is none: INVALID_VALUE. What ends one waits for the work that may use it.
CUtexObject make_texture(const Texture& texture);
Texture texture(CUtexObject object);
void end_texture(CUtexObject object);
CUsurfObject make_surface(const CUDA_RESOURCE_DESC& resource);
CUDA_RESOURCE_DESC surface(CUsurfObject object);
void end_surface(CUsurfObject object);

// Addresses and memory apart from each other. What takes a handle of memory refuses one that the program does
// not hold; what takes a range, one that is not a reservation, or whole mappings.
CUdeviceptr reserve_addresses(size_t bytes, size_t alignment, CUdeviceptr wished);
void free_addresses(CUdeviceptr base, size_t bytes);
size_t granularity(CUdevice device, bool recommended);  // 0: no memory is created there
CUmemGenericAllocationHandle create_memory(CUdevice device, size_t bytes);
CUdevice device_of_memory(CUmemGenericAllocationHandle memory);
CUmemGenericAllocationHandle retain_memory(CUdeviceptr mapped_at);
void release_memory(CUmemGenericAllocationHandle memory);
void map_memory(CUdeviceptr base, size_t bytes, CUmemGenericAllocationHandle memory);
void unmap_memory(CUdeviceptr base, size_t bytes);
void set_access(CUdeviceptr base, size_t bytes, CUdevice device, bool granted);
uint32_t mapping_accessible_from(CUdeviceptr address);  // a bit for each device

}  // namespace platform

// For the readers of copies (cuda/copy_request.h).
inline CUresult shape_of_array(CUarray array, cuda::ArrayShape& shape) {
    return cuda::guarded([&] { shape = platform::array_shape(array); });
}

// The frame of an entry point; see cuda::guarded.
template <class Body>
CUresult call(Body&& body) noexcept {
    return cuda::guarded([&] {
        platform::require_initialised();
        return body();
    });
}

// The same for what a function that a stream calls may not do.
template <class Body>
CUresult permitted_call(Body&& body) noexcept {
    return call([&] {
        require_outside_callback();
        return body();
    });
}

// The same for calls with what only the present life can have: between two lives none begins for them.
template <class Body>
CUresult living_call(Body&& body) noexcept {
    return permitted_call([&] {
        platform::require_alive();
        return body();
    });
}

}  // namespace front
