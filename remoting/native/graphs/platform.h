// What graphs need of the library that they are in: the forwarding client or the software GPU. Each defines
// these functions. All may throw Failure; none may call an entry point of graphs.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "graph.h"

namespace graphs {

// A stream as a call named it.
struct Stream {
    uint64_t key = 0;      // unique in the process; that of a thread's default stream is the thread's
    uint64_t context = 0;  // unique; of the context that it belongs to
    bool legacy = false;   // the legacy default stream
    bool blocking = true;  // orders itself with the legacy default stream
    std::shared_ptr<void> object{};  // the library's own
    uint64_t wire = 0;               // the same
};

// One operation of an executable graph, child graphs dissolved. Steps stand in an order that `after` allows.
struct Step {
    const Node* node = nullptr;  // null: nothing to do, only an order. Of the executable graph's own copy
    std::vector<uint32_t> after{};
};

// An executable graph on the device's side. Calls come one at a time.
class Replay {
  public:
    virtual ~Replay() = default;
    // The step does something else at later launches.
    virtual void set(uint32_t step, const Node& node) = 0;
    virtual void enable(uint32_t step, bool enabled) = 0;
    // `keep` lives until the launch has ended.
    virtual void launch(const Stream& stream, std::shared_ptr<void> keep) = 0;
};

namespace platform {

CUresult ready();        // an error that every call answers with
void require_context();  // of the calling thread
Stream stream(CUstream handle);
uint64_t event(CUevent handle);  // its key
std::shared_ptr<const Kernel> kernel(CUfunction func, CUkernel kern);
void check(const KernelParams& params);  // shape, shared memory, attributes
void check(const CopyParams& params);    // both ends
void check(const FillParams& params);
void require_device(CUdevice device);
uint8_t device();  // of the current context
CUdeviceptr allocate(uint8_t device, size_t bytes);
void free(uint8_t device, CUdeviceptr address) noexcept;
// Calls the program's own functions, which may last, now or when the entry point has ended.
void tell(std::span<const std::function<void()>> told);
std::shared_ptr<Replay> make_replay(uint64_t exec, std::span<const Step> steps, uint64_t flags);

}  // namespace platform
}  // namespace graphs
