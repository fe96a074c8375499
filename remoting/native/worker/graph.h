// Executable graphs of a session: the driver's graph, built from the client's description (wire/graph.h), and
// the images that its copies from and to host memory work on.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "box_copy.h"
#include "graph_wire.h"
#include "handlers.h"
#include "launch_buffer.h"

namespace worker {

// Takes its bytes from what the session may have of them.
class GraphImage {
  public:
    // Null when the session has too many, or the lease.
    static std::shared_ptr<GraphImage> make(Worker& worker, Session& session, uint64_t bytes);
    ~GraphImage();
    std::byte* data() const { return bytes_.get(); }
    uint64_t size() const { return size_; }

  private:
    GraphImage(HostShare share, Session& session, uint64_t bytes);
    const HostShare share_;
    Session& session_;
    const uint64_t size_;
    const std::unique_ptr<std::byte[]> bytes_;
};

class BuiltGraph {
  public:
    BuiltGraph(Worker& worker, uint8_t device)
        : worker_(worker), device_(device), share_(worker.host_memory.graphs) {}
    ~BuiltGraph();
    uint8_t device() const { return device_; }

    // kMalformed for what is no description.
    CUresult build(Context& context, const wire::GraphHead& head, std::span<const std::byte> description);
    CUresult set(Context& context, const wire::GraphChange& change, std::span<const std::byte> work);
    CUresult enable(uint32_t step, bool enabled);
    CUresult input(Session& session, const wire::GraphInput& input, std::span<const std::byte> bytes);
    CUresult run(Session& session, const wire::GraphRun& run, CUstream stream);
    CUresult output(const wire::GraphOutput& output, wire::Writer& reply);
    CUresult look(const wire::GraphLook& look, std::span<const std::byte> given, wire::Writer& reply);
    // Of a launch that has failed: its functions will not be called. False as HostCalls::refuse.
    bool refuse_calls(HostCalls& calls) const;
    // All launches have ended.
    bool idle();

  private:
    struct Step {
        wire::StepKind kind = wire::StepKind::nothing;
        CUgraphNode node = nullptr;
        int32_t copy = -1;  // index in copies_ of a copy that uses the image
        std::shared_ptr<const ArrayMemory> to_array{}, from_array{};  // that the copy needs
        uint64_t ticket = 0;                                          // of a function
    };
    struct HostCopy {
        uint32_t step;
        CopyPlace to, from;  // of the type CU_MEMORYTYPE_HOST: its address is a place in the image
    };
    struct Run {
        CUevent end = nullptr;  // null: nobody knows when it ends
        std::shared_ptr<GraphImage> image{};
    };
    CUresult add(Context& context, Step& step, uint32_t index, wire::Reader& work,
                 const std::vector<CUgraphNode>& after);
    CUresult set_copy(Context& context, uint32_t which, const wire::GraphCopy& copy);
    CUresult add_kernel(Context& context, Step& step, wire::Reader& work,
                        const std::vector<CUgraphNode>& after);
    // What a node that calls the function under this ticket has.
    CUresult expect(Context& context, uint64_t ticket, CUDA_HOST_NODE_PARAMS& params);
    CUresult point_to(GraphImage& image);
    void reap();
    CUresult mark_end(CUstream stream);

    Worker& worker_;
    const uint8_t device_;
    HostShare share_;   // for what the driver keeps of it
    std::mutex mutex_;  // of what follows: asked calls run beside posted ones
    CUgraph graph_ = nullptr;
    CUgraphExec exec_ = nullptr;
    uint64_t image_bytes_ = 0;
    std::vector<Step> steps_;
    std::vector<HostCopy> copies_;
    std::vector<std::shared_ptr<LoadedLibrary>> libraries_;    // whose kernels it launches
    std::vector<std::unique_ptr<HostCalls::Expected>> calls_;  // that launches may come to
    std::shared_ptr<GraphImage> pointed_to_;                   // by the copies
    bool moved_ = false;                                       // a copy was set since
    std::shared_ptr<GraphImage> next_;                         // of the next launch, while its bytes come
    std::deque<Run> runs_;                                     // that may not have ended
    std::shared_ptr<GraphImage> last_;                         // of the last launch
    std::vector<CUevent> spare_events_;
};

// For launches and for the kernel nodes of graphs: what LaunchHead says, attributes and parameters, checked.
struct LaunchRequest {
    wire::LaunchHead head;
    CUlaunchAttribute attributes[wire::kMaxLaunchAttributes];
    std::span<const std::byte> params;
    std::shared_ptr<LoadedLibrary> library;
    const LoadedKernel* kernel = nullptr;

    CUresult take(Context& context, wire::Reader& payload);
    // For a driver, which copies what it points to.
    cuda::LaunchExtra extra() const { return {params.data(), params.size()}; }
};

}  // namespace worker
