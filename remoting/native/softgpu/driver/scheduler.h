// Queues of operations: what a stream is made of. One scheduler serves the process.
//
// Why the order is right. An operation starts when (1) all operations before it in its queue have ended and
// (2) all completions that it was submitted `after` have ended. Completions belong to operations that were
// submitted earlier, so the graph of waiting has no cycle and some operation can always run. The rules of the
// legacy default stream become edges of kind (2), added under the one mutex that orders all submissions:
// an operation in the legacy queue waits for the last operation of each blocking queue of its group, and an
// operation in a blocking queue waits for the last one in the legacy queue.
//
// Who runs them. A queue whose head may start is `ready`, and a dispatcher thread takes it, one queue a
// thread, and runs its operations one after the other. A thread that waits for an operation of a ready queue
// runs the queue itself instead of sleeping, unless the operation calls the program's own code. A dispatcher
// that is in the program's code does not count among the few that work, because nobody knows what that code
// waits for: another takes its place meanwhile.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "failure.h"

namespace softgpu::driver {

class Queue;

// The end of one operation. Set once.
class Completion {
  public:
    bool done() const { return done_.load(std::memory_order_acquire) != 0; }
    uint64_t nanoseconds() const { return nanoseconds_; }  // of the steady clock, at the end; once done
    // From now on a stream stands before this until a value is in memory, which perhaps nobody writes.
    void awaits_value() { awaits_value_.store(true, std::memory_order_release); }

  private:
    friend class Scheduler;
    std::atomic<uint32_t> done_{0};
    std::atomic<bool> awaits_value_{false};
    uint64_t nanoseconds_ = 0;
    // Queues whose head waits for this, kept alive by it. Under the scheduler's mutex.
    std::vector<std::shared_ptr<Queue>> waiters_;
};
using CompletionRef = std::shared_ptr<Completion>;

// Thrown by an operation that has changed nothing and cannot go on yet: it is put back to the head of its
// queue, and starts again after `until`. So what waits holds no thread.
struct PutBack {
    CompletionRef until;
};

struct Operation {
    std::function<CUresult()> body = {};    // none: a marker. What it returns but success fails the group
    std::vector<CompletionRef> after = {};  // besides the order of the queue
    bool always = false;                    // runs although the group has failed: gives something back
    bool calls_program = false;             // a host callback
    uint64_t interrupts = 0;                // its session's count when it was submitted
};

// Queues by weak reference, under the scheduler's mutex. What has left is dropped when the list has doubled
// since the last time, so adding costs the same however many there are, and those that are gone are never
// most of it.
class QueueList {
  public:
    template <typename Stays>
    void add(const std::shared_ptr<Queue>& queue, Stays stays) {
        if (list_.size() >= full_) keep(stays);
        list_.push_back(queue);
    }
    // Shows each queue that lives to `stays`, and drops the others and those it says no to.
    template <typename Stays>
    void keep(Stays stays) {
        std::erase_if(list_, [&stays](const std::weak_ptr<Queue>& weak) {
            const std::shared_ptr<Queue> queue = weak.lock();
            return !queue || !stays(queue);
        });
        full_ = std::max(kLeast, 2 * list_.size());
    }
    void clear() { list_.clear(); }

  private:
    static constexpr size_t kLeast = 64;
    std::vector<std::weak_ptr<Queue>> list_;
    size_t full_ = kLeast;
};

// The queues of one context: they fail, end and see the legacy default stream together.
struct QueueGroup {
    std::atomic<int> fault{CUDA_SUCCESS};  // the first error of an operation; then only `always` ones run
    std::atomic<bool> cancel{false};       // asks running kernels to end
    // These: under the scheduler's mutex.
    QueueList queues;
    QueueList busy;  // all with work under way, and some whose work has ended
    std::shared_ptr<Queue> legacy;
    bool closed = false;

    CUresult status() const { return static_cast<CUresult>(fault.load(std::memory_order_acquire)); }
    void fail(CUresult error) {
        int none = CUDA_SUCCESS;
        fault.compare_exchange_strong(none, error);
    }
};

// All members belong to the scheduler and are under its mutex.
class Queue {
  public:
    Queue(std::shared_ptr<QueueGroup> group, bool blocking, int priority)
        : group(std::move(group)), blocking(blocking), priority(priority) {}
    const std::shared_ptr<QueueGroup> group;
    const bool blocking;  // orders itself with the legacy default stream
    const int priority;   // 0 to kGreatestPriority

  private:
    friend class Scheduler;
    enum class State { idle, blocked, ready, running };
    struct Entry {
        Operation operation;
        CompletionRef completion;
    };
    // Work is under way. For QueueGroup::busy, which forgets a queue that has none.
    bool stays_busy() { return listed_busy = tail && !tail->done(); }

    State state = State::idle;
    bool listed_busy = false;
    std::deque<Entry> entries;
    CompletionRef tail;  // of the operation submitted last; null when there was none
};

constexpr int kGreatestPriority = -5;

class Scheduler {
  public:
    // Adds the queue to its group; with `legacy`, as the group's default stream. Starts the first dispatcher.
    void add(const std::shared_ptr<Queue>& queue, bool legacy);

    // Queues the operation and returns its completion. Waits while the queue is full. With `soon`, the caller
    // promises to wait for it at once, which saves waking a dispatcher.
    CompletionRef submit(const std::shared_ptr<Queue>& queue, Operation operation, bool soon = false);

    // Returns when it is done. `queue`, which may be null, is where it was submitted.
    void wait(const CompletionRef& completion, const std::shared_ptr<Queue>& queue);

    // The same, but false once it has stood behind streams that wait for a value in memory for as long as
    // `patience`, which is used up: the value may be what this very thread would write.
    bool wait_unless_for_value(const CompletionRef& completion, const std::shared_ptr<Queue>& queue,
                               std::chrono::nanoseconds& patience);

    // Ends one that belongs to no operation, and that operations were submitted `after`.
    void end(const CompletionRef& completion);

    // The completion of all that was submitted so far; null when nothing is under way.
    CompletionRef last(const std::shared_ptr<Queue>& queue);
    // The same of the group's blocking queues, if `queue` is its legacy default stream: that comes after
    // them.
    std::vector<CompletionRef> before_legacy(const std::shared_ptr<Queue>& queue);
    // The ends of all that is under way in the group.
    std::vector<CompletionRef> pending(const std::shared_ptr<QueueGroup>& group);
    // Everything that is submitted to the group from now on starts after `completion`.
    void submit_to_all(const std::shared_ptr<QueueGroup>& group, const CompletionRef& completion);
    // Waits for all that was submitted so far to all queues of the group.
    void drain(const std::shared_ptr<QueueGroup>& group);
    // The same, but for what stands behind a value; false when there is such.
    bool drain_unless_for_value(const std::shared_ptr<QueueGroup>& group, std::chrono::nanoseconds& patience);
    void drain_all();
    // No more submissions; what has not started is skipped, running kernels are asked to end; then drains.
    void close(const std::shared_ptr<QueueGroup>& group);

    // Operation::interrupts of what this thread runs.
    static uint64_t interrupts_before();
    static bool in_callback();  // this thread runs a program's callback, and must not wait

  private:
    using Lock = std::unique_lock<std::mutex>;
    using QueueRef = std::shared_ptr<Queue>;
    using Tails = std::vector<std::pair<CompletionRef, QueueRef>>;
    Tails tails(const std::shared_ptr<QueueGroup>& group);
    void run_until(const CompletionRef& completion, const QueueRef& queue);
    bool is_behind_value(const CompletionRef& completion);
    bool head_may_start(const QueueRef& queue);
    void schedule(const QueueRef& queue, bool wake);
    void wake_dispatcher();
    void wake_for_ready();
    bool start_dispatcher();
    QueueRef take_ready();
    void take_ready(const QueueRef& queue);
    void run(Lock& lock, const QueueRef& queue, const Completion* until);
    void finish(Completion& completion);
    void await_room(Lock& lock, const QueueRef& queue);
    void dispatch();
    unsigned working() const { return dispatchers_ - in_program_; }

    std::mutex mutex_;
    std::condition_variable work_;
    std::array<std::deque<QueueRef>, 1 - kGreatestPriority> ready_;  // by -priority
    std::vector<std::weak_ptr<QueueGroup>> groups_;
    unsigned dispatchers_ = 0;
    unsigned in_program_ = 0;  // dispatchers that run the program's own code
    unsigned idle_ = 0;
    unsigned woken_ = 0;     // dispatchers that were told of work and have not come for it yet
    unsigned starting_ = 0;  // dispatchers that are new and have not come for any
};

}  // namespace softgpu::driver
