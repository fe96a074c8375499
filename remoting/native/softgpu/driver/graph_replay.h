// An executable graph on the software GPU. Its steps are dealt to queues once: chains stay in a queue,
// branches run side by side in queues of the graph's own. A launch submits them in an order that their edges
// allow, so what an operation waits for was submitted before it, as the scheduler wants it.
#pragma once

#include <span>

#include "driver.h"
#include "graphs/platform.h"

namespace softgpu::driver {

// What a step does, to be done any number of times.
struct StepWork {
    std::function<CUresult()> body = {};  // none: only an order
    bool calls_program = false;
    std::shared_ptr<Event> record = {};  // set to the end of the step
    std::shared_ptr<Event> wait = {};    // the step waits for what it was last set to
};
StepWork work_of(const graphs::Node& node);

class GraphReplay : public graphs::Replay {
  public:
    explicit GraphReplay(std::span<const graphs::Step> steps);
    void set(uint32_t step, const graphs::Node& node) override;
    void enable(uint32_t step, bool enabled) override;
    void launch(const graphs::Stream& stream, std::shared_ptr<void> keep) override;

  private:
    static constexpr size_t kMaxQueues = 8;  // one of them the stream's
    struct Placed {
        StepWork work{};
        bool enabled = true;
        size_t queue = 0;               // 0: the stream's
        bool first = false;             // waits for the beginning: nothing else holds it
        std::vector<uint32_t> after{};  // what the order of its queue does not see to
    };
    void place(std::span<const graphs::Step> steps);
    std::vector<std::shared_ptr<Queue>>& queues(const Stream& stream);

    std::mutex changing_;  // a step may be set while a launch is being submitted
    std::vector<Placed> steps_;
    std::vector<uint32_t> ends_;  // the last step of each queue but the stream's
    size_t queue_count_ = 1;
    std::vector<std::shared_ptr<Queue>> queues_;  // [0] is the stream's, at each launch
    std::shared_ptr<QueueGroup> group_;           // that the others belong to
    CompletionRef last_;                          // the end of the launch before
};

}  // namespace softgpu::driver
