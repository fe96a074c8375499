#include "graph_replay.h"

#include <algorithm>
#include <utility>

#include "stream.h"

namespace softgpu::driver {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Which queue takes a step: the one whose last step it follows, else one that is free, else the next in turn.
size_t choose(const graphs::Step& step, const std::vector<uint32_t>& last, size_t limit, size_t& turn) {
    for (size_t queue = 0; queue < last.size(); ++queue) {
        if (last[queue] == kNone) return queue;  // only the stream's, before the first step
        if (std::find(step.after.begin(), step.after.end(), last[queue]) != step.after.end()) return queue;
    }
    if (last.size() < limit) return last.size();
    return turn++ % limit;
}

}  // namespace

GraphReplay::GraphReplay(std::span<const graphs::Step> steps) : steps_(steps.size()) {
    for (size_t i = 0; i < steps.size(); ++i) {
        if (steps[i].node) steps_[i].work = work_of(*steps[i].node);
    }
    place(steps);
}

void GraphReplay::place(std::span<const graphs::Step> steps) {
    std::vector<uint32_t> last{kNone};  // of each queue
    size_t turn = 0;
    for (uint32_t i = 0; i < steps.size(); ++i) {
        Placed& placed = steps_[i];
        placed.queue = choose(steps[i], last, kMaxQueues, turn);
        if (placed.queue == last.size()) last.push_back(kNone);
        placed.first = steps[i].after.empty() && placed.queue != 0;
        for (const uint32_t other : steps[i].after) {
            if (steps_[other].queue != placed.queue) placed.after.push_back(other);
        }
        last[placed.queue] = i;
    }
    queue_count_ = last.size();
    ends_.assign(last.begin() + 1, last.end());
}

std::vector<std::shared_ptr<Queue>>& GraphReplay::queues(const Stream& stream) {
    const auto& group = stream.queue->group;
    if (group_ != group) queues_.clear();
    group_ = group;
    if (queues_.empty()) queues_.push_back(nullptr);
    while (queues_.size() < queue_count_) {
        auto queue = std::make_shared<Queue>(group, false, stream.queue->priority);
        stream.context->driver.scheduler.add(queue, false);
        queues_.push_back(std::move(queue));
    }
    queues_[0] = stream.queue;
    return queues_;
}

void GraphReplay::set(uint32_t step, const graphs::Node& node) {
    StepWork work = work_of(node);
    const std::lock_guard lock(changing_);
    steps_[step].work.record.swap(work.record);
    steps_[step].work.wait.swap(work.wait);
    steps_[step].work.body.swap(work.body);
}

void GraphReplay::enable(uint32_t step, bool enabled) {
    const std::lock_guard lock(changing_);
    steps_[step].enabled = enabled;
}

// One launch of a graph waits for the launch before, in whatever stream that was.
void GraphReplay::launch(const graphs::Stream& named, std::shared_ptr<void> keep) {
    const auto stream = std::static_pointer_cast<Stream>(named.object);
    Scheduler& scheduler = stream->context->driver.scheduler;
    const auto& to = queues(*stream);
    std::vector<CompletionRef> done(steps_.size());
    Operation beginning;
    if (last_) beginning.after.push_back(last_);
    const CompletionRef begun = scheduler.submit(to[0], std::move(beginning));
    for (size_t i = 0; i < steps_.size(); ++i) {
        StepWork work;
        bool enabled;
        {
            const std::lock_guard lock(changing_);
            work = steps_[i].work;
            enabled = steps_[i].enabled;
        }
        const Placed& placed = steps_[i];
        Operation operation;
        if (enabled) operation.body = std::move(work.body);
        operation.calls_program = work.calls_program;
        if (placed.first) operation.after.push_back(begun);
        for (const uint32_t other : placed.after) operation.after.push_back(done[other]);
        if (work.wait && work.wait->record().completion)
            operation.after.push_back(work.wait->record().completion);
        done[i] = scheduler.submit(to[placed.queue], std::move(operation));
        if (work.record) work.record->set({done[i], to[placed.queue]});
    }
    Operation end{.body = [keep = std::move(keep)] { return CUDA_SUCCESS; }};
    for (const uint32_t step : ends_) end.after.push_back(done[step]);
    last_ = scheduler.submit(to[0], std::move(end));
}

}  // namespace softgpu::driver
