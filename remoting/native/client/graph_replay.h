// An executable graph of the worker's, as the client drives it: what each step is on the wire
// (wire/graph_wire.h).
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "graph_image.h"
#include "graph_wire.h"
#include "graphs/platform.h"
#include "payload.h"

namespace client {

class Call;

class ForwardedGraph : public graphs::Replay {
  public:
    // Sends the description. Throws Failure.
    ForwardedGraph(uint64_t handle, std::span<const graphs::Step> steps, uint64_t flags);
    ~ForwardedGraph() override;
    void set(uint32_t step, const graphs::Node& node) override;
    void enable(uint32_t step, bool enabled) override;
    void launch(const graphs::Stream& stream, std::shared_ptr<void> keep) override;

    // Brings what the last launch has written to the program's memory; with `wait`, once it has ended.
    // NOT_READY when it has not. After any error it is still to be brought.
    CUresult deliver(Call& call, bool wait);
    bool writes_to(uint64_t start, uint64_t bytes);

  private:
    struct Work {
        wire::StepKind kind = wire::StepKind::nothing;
        bool host = false;               // a copy with an end in host memory
        wire::GraphCopy copy{};          // of those, with the program's own addresses
        graphs::HostParams call{};       // of a function
        uint64_t ticket = 0;             // the same (host_calls.h)
        std::vector<uint32_t> shows{};   // the same: copies to host memory before it, by step
        std::vector<uint32_t> gives{};   // the same: copies from host memory behind it
        std::vector<uint32_t> beside{};  // the same: copies to host memory in no order with it
    };
    Work work_of(const graphs::Node& node, wire::Writer& payload) const;
    void lay_out();
    wire::GraphCopy in_image(const wire::GraphCopy& copy) const;
    void describe(std::span<const graphs::Step> steps, uint64_t flags);
    void find_what_functions_see(std::span<const graphs::Step> steps);
    void check_functions() const;
    void check_kernel(const graphs::KernelParams& kernel) const;
    bool copies_what_kernels_use();
    void renew_ticket(uint32_t step);
    void release_tickets();
    void send_inputs(Call& call);
    void make_room(Call& call);
    CUresult deliver_locked(Call& call, bool wait);

    const uint64_t handle_;
    uint8_t device_ = 0;
    std::mutex mutex_;  // of what follows
    std::vector<Work> steps_;
    std::vector<CUevent> recorded_;  // by step; null for those that record nothing
    std::vector<uint32_t> host_copies_;
    std::vector<uint32_t> calls_;  // steps that call a function
    ImageLayout layout_;
    std::vector<HostRange> inputs_;
    std::atomic<bool> writes_host_{false};
    bool undelivered_ = false;  // what the last launch writes to the program's memory
    uint64_t in_flight_ = 0;    // bytes of images that were sent since the program last waited
    std::shared_ptr<void> kept_;
};

// Launches whose results have not been brought yet.
class GraphOutputs {
  public:
    static GraphOutputs& get();
    bool any() const { return count_.load(std::memory_order_acquire) > 0; }
    void add(ForwardedGraph* graph);
    void remove(ForwardedGraph* graph);
    // Nothing will be brought any more: the life ends.
    void forget();
    // After a call that waited for the device: brings what is complete.
    CUresult deliver(Call& call);
    // Before these ranges are read: waits for what earlier launches write to them.
    CUresult settle(Call& call, std::span<const HostRange> ranges);

  private:
    template <typename Deliver>
    CUresult deliver_each(Deliver deliver);

    std::mutex mutex_;
    std::vector<ForwardedGraph*> graphs_;
    std::atomic<size_t> count_{0};
};

}  // namespace client
