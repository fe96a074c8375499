#include "scheduler.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "session.h"
#include "signals_blocked.h"

namespace softgpu::driver {
namespace {

constexpr unsigned kMaxDispatchers = 16;  // as many operations at once; a GPU runs 128 kernels at most
constexpr unsigned kMaxInProgram = 1024;  // of which each has a thread, which may wait for long
constexpr size_t kMaxQueued = 1024;       // of one queue; about what a GPU's driver takes before it blocks

thread_local bool inside_callback = false;
thread_local uint64_t interrupts_at_submission = 0;

uint64_t now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

struct Outcome {
    CUresult result = CUDA_SUCCESS;
    CompletionRef put_back = nullptr;  // until then
};

Outcome execute(Operation& operation, QueueGroup& group) noexcept {
    CUresult result = CUDA_SUCCESS;
    inside_callback = operation.calls_program;
    interrupts_at_submission = operation.interrupts;
    try {
        if (operation.body && (operation.always || group.status() == CUDA_SUCCESS)) {
            result = operation.body();
        }
    } catch (const PutBack& put_back) {
        inside_callback = false;
        return {.put_back = put_back.until};
    } catch (const Failure& failure) {
        result = failure.code;
    } catch (const std::bad_alloc&) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } catch (...) {
        result = CUDA_ERROR_UNKNOWN;
    }
    inside_callback = false;
    // What the body holds goes before the operation counts as done: who waited for it finds it gone.
    operation.body = nullptr;
    return {result};
}

}  // namespace

uint64_t Scheduler::interrupts_before() {
    return interrupts_at_submission;
}

bool Scheduler::in_callback() {
    return inside_callback;
}

void Scheduler::add(const std::shared_ptr<Queue>& queue, bool legacy) {
    const Lock lock(mutex_);
    require(!queue->group->closed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    queue->group->queues.add(queue, [](const QueueRef&) { return true; });
    if (legacy) {
        queue->group->legacy = queue;
        std::erase_if(groups_, [](const auto& old) { return old.expired(); });
        groups_.push_back(queue->group);
    }
    if (dispatchers_ == 0) require(start_dispatcher(), CUDA_ERROR_OPERATING_SYSTEM);
}

CompletionRef Scheduler::submit(const std::shared_ptr<Queue>& queue, Operation operation, bool soon) {
    auto completion = std::make_shared<Completion>();
    operation.interrupts = current_session()->interrupts.load(std::memory_order_acquire);
    Lock lock(mutex_);
    if (queue->entries.size() >= kMaxQueued) await_room(lock, queue);
    QueueGroup& group = *queue->group;
    require(!group.closed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    auto& after = operation.after;
    auto wait_for = [&after](const Queue& other) {
        if (other.tail && !other.tail->done()) after.push_back(other.tail);
    };
    if (queue == group.legacy) {
        group.busy.keep([&](const QueueRef& other) {
            if (other != queue && other->blocking) wait_for(*other);
            return other->stays_busy();
        });
    } else if (queue->blocking && group.legacy) {
        wait_for(*group.legacy);
    }
    if (!queue->listed_busy) {
        group.busy.add(queue, [](const QueueRef& other) { return other->stays_busy(); });
        queue->listed_busy = true;
    }
    queue->entries.push_back({std::move(operation), completion});
    queue->tail = completion;
    if (queue->state == Queue::State::idle) schedule(queue, !soon || inside_callback);
    return completion;
}

void Scheduler::await_room(Lock& lock, const QueueRef& queue) {
    require(!inside_callback, CUDA_ERROR_NOT_PERMITTED);
    while (queue->entries.size() >= kMaxQueued) {
        const CompletionRef oldest = queue->entries.front().completion;
        lock.unlock();
        oldest->done_.wait(0, std::memory_order_acquire);
        lock.lock();
    }
}

bool Scheduler::head_may_start(const QueueRef& queue) {
    auto& after = queue->entries.front().operation.after;
    while (!after.empty()) {
        if (!after.back()->done()) {
            after.back()->waiters_.push_back(queue);
            return false;
        }
        after.pop_back();
    }
    return true;
}

void Scheduler::schedule(const QueueRef& queue, bool wake) {
    if (queue->entries.empty()) {
        queue->state = Queue::State::idle;
    } else if (!head_may_start(queue)) {
        queue->state = Queue::State::blocked;
    } else {
        queue->state = Queue::State::ready;
        ready_[-queue->priority].push_back(queue);
        if (wake) wake_dispatcher();
    }
}

// One dispatcher for each queue that is ready. Those that are on their way count: a thread that waits has
// often run the queue itself before they come, and they find the next one.
void Scheduler::wake_dispatcher() {
    size_t ready = 0;
    for (const auto& level : ready_) ready += level.size();
    if (woken_ + starting_ >= ready) return;
    if (idle_ > woken_) {
        ++woken_;
        work_.notify_one();
    } else if (working() < kMaxDispatchers && in_program_ < kMaxInProgram) {
        start_dispatcher();
    }
}

void Scheduler::wake_for_ready() {
    if (std::any_of(ready_.begin(), ready_.end(), [](const auto& level) { return !level.empty(); })) {
        wake_dispatcher();
    }
}

bool Scheduler::start_dispatcher() {
    const SignalsBlocked blocked;
    bool started = true;
    try {
        std::thread([this] { dispatch(); }).detach();
        ++dispatchers_;
        ++starting_;
    } catch (const std::system_error&) {
        started = false;  // the dispatchers that there are will come to it
    }
    return started;
}

Scheduler::QueueRef Scheduler::take_ready() {
    for (auto level = ready_.rbegin(); level != ready_.rend(); ++level) {
        if (level->empty()) continue;
        QueueRef queue = std::move(level->front());
        level->pop_front();
        return queue;
    }
    return nullptr;
}

void Scheduler::take_ready(const QueueRef& queue) {
    auto& level = ready_[-queue->priority];
    const auto it = std::find(level.rbegin(), level.rend(), queue);
    level.erase(std::next(it).base());
}

void Scheduler::dispatch() {
    Lock lock(mutex_);
    --starting_;
    for (;;) {
        if (working() > kMaxDispatchers) {
            // Others came while this one was in the program; if what is ready needs one more, it is woken.
            --dispatchers_;
            wake_for_ready();
            return;
        }
        if (const QueueRef queue = take_ready()) {
            run(lock, queue, nullptr);
            continue;
        }
        ++idle_;
        work_.wait(lock);
        --idle_;
        if (woken_ > 0) --woken_;
    }
}

void Scheduler::run(Lock& lock, const QueueRef& queue, const Completion* until) {
    queue->state = Queue::State::running;
    do {
        Queue::Entry entry = std::move(queue->entries.front());
        queue->entries.pop_front();
        const bool in_program = entry.operation.calls_program;
        if (in_program) {
            ++in_program_;
            wake_for_ready();
        }
        lock.unlock();
        const Outcome outcome = execute(entry.operation, *queue->group);
        if (outcome.result != CUDA_SUCCESS) queue->group->fail(outcome.result);
        lock.lock();
        if (outcome.put_back) {
            entry.operation.after.push_back(outcome.put_back);
            queue->entries.push_front(std::move(entry));
        } else {
            finish(*entry.completion);
        }
        if (in_program) {
            --in_program_;
            if (working() > kMaxDispatchers) break;
        }
        if (until &&
            (until->done() || queue->entries.empty() || queue->entries.front().operation.calls_program)) {
            break;
        }
    } while (!queue->entries.empty() && head_may_start(queue));
    schedule(queue, true);
}

void Scheduler::finish(Completion& completion) {
    completion.nanoseconds_ = now();
    completion.done_.store(1, std::memory_order_release);
    completion.done_.notify_all();
    for (const QueueRef& queue : std::exchange(completion.waiters_, {})) {
        if (queue->state == Queue::State::blocked) schedule(queue, true);
    }
}

void Scheduler::end(const CompletionRef& completion) {
    const Lock lock(mutex_);
    finish(*completion);
}

// Runs what is ready in the queue, as far as this thread may.
void Scheduler::run_until(const CompletionRef& completion, const QueueRef& queue) {
    Lock lock(mutex_);
    while (queue && !completion->done() && queue->state == Queue::State::ready) {
        if (queue->entries.front().operation.calls_program) {
            wake_dispatcher();
            break;
        }
        take_ready(queue);
        run(lock, queue, completion.get());
    }
}

void Scheduler::wait(const CompletionRef& completion, const std::shared_ptr<Queue>& queue) {
    if (!completion || completion->done()) return;
    require(!inside_callback, CUDA_ERROR_NOT_PERMITTED);
    run_until(completion, queue);
    while (!completion->done()) completion->done_.wait(0, std::memory_order_acquire);
}

bool Scheduler::wait_unless_for_value(const CompletionRef& completion, const std::shared_ptr<Queue>& queue,
                                      std::chrono::nanoseconds& patience) {
    using namespace std::chrono_literals;
    require(!inside_callback, CUDA_ERROR_NOT_PERMITTED);
    run_until(completion, queue);
    constexpr std::chrono::nanoseconds kFirst = 20us, kLongest = 5ms;
    for (auto pause = kFirst; !completion->done(); pause = std::min(2 * pause, kLongest)) {
        if (is_behind_value(completion)) {
            if (patience <= 0ns) return false;
            patience -= pause;
        }
        std::this_thread::sleep_for(pause);
    }
    return true;
}

// Follows what the operation waits for, from queue to queue, to streams that stand before a value.
bool Scheduler::is_behind_value(const CompletionRef& completion) {
    const Lock lock(mutex_);
    std::unordered_map<const Completion*, std::pair<QueueRef, size_t>> places;
    for (const auto& weak : groups_) {
        const auto group = weak.lock();
        if (!group) continue;
        group->busy.keep([&](const QueueRef& queue) {
            for (size_t i = 0; i < queue->entries.size(); ++i)
                places[queue->entries[i].completion.get()] = {queue, i};
            return true;
        });
    }
    std::vector<const Completion*> behind{completion.get()};
    while (!behind.empty()) {
        const Completion* const one = behind.back();
        behind.pop_back();
        if (one->done()) continue;
        if (one->awaits_value_.load(std::memory_order_acquire)) return true;
        const auto place = places.extract(one);  // once
        if (!place) continue;                    // it runs, or is none of an operation
        const auto& [queue, index] = place.mapped();
        if (index > 0) behind.push_back(queue->entries[index - 1].completion.get());
        for (const CompletionRef& other : queue->entries[index].operation.after)
            behind.push_back(other.get());
    }
    return false;
}

CompletionRef Scheduler::last(const std::shared_ptr<Queue>& queue) {
    const Lock lock(mutex_);
    return queue->tail && !queue->tail->done() ? queue->tail : nullptr;
}

std::vector<CompletionRef> Scheduler::before_legacy(const std::shared_ptr<Queue>& queue) {
    std::vector<CompletionRef> tails;
    const Lock lock(mutex_);
    if (queue != queue->group->legacy) return tails;
    queue->group->busy.keep([&](const QueueRef& other) {
        if (other->stays_busy() && other != queue && other->blocking) tails.push_back(other->tail);
        return other->listed_busy;
    });
    return tails;
}

std::vector<CompletionRef> Scheduler::pending(const std::shared_ptr<QueueGroup>& group) {
    std::vector<CompletionRef> tails;
    const Lock lock(mutex_);
    group->busy.keep([&](const QueueRef& queue) {
        if (queue->stays_busy()) tails.push_back(queue->tail);
        return queue->listed_busy;
    });
    return tails;
}

void Scheduler::submit_to_all(const std::shared_ptr<QueueGroup>& group, const CompletionRef& completion) {
    std::vector<QueueRef> queues;
    {
        const Lock lock(mutex_);
        group->queues.keep([&](const QueueRef& queue) {
            queues.push_back(queue);
            return true;
        });
    }
    for (const QueueRef& queue : queues) submit(queue, {.after = {completion}});
}

Scheduler::Tails Scheduler::tails(const std::shared_ptr<QueueGroup>& group) {
    Tails tails;
    const Lock lock(mutex_);
    group->busy.keep([&](const QueueRef& queue) {
        if (queue->stays_busy()) tails.emplace_back(queue->tail, queue);
        return queue->listed_busy;
    });
    return tails;
}

void Scheduler::drain(const std::shared_ptr<QueueGroup>& group) {
    for (const auto& [tail, queue] : tails(group)) wait(tail, queue);
}

bool Scheduler::drain_unless_for_value(const std::shared_ptr<QueueGroup>& group,
                                       std::chrono::nanoseconds& patience) {
    bool all = true;
    for (const auto& [tail, queue] : tails(group)) all &= wait_unless_for_value(tail, queue, patience);
    return all;
}

void Scheduler::drain_all() {
    std::vector<std::weak_ptr<QueueGroup>> groups;
    {
        const Lock lock(mutex_);
        groups = groups_;
    }
    for (const auto& weak : groups) {
        if (const auto group = weak.lock()) drain(group);
    }
}

void Scheduler::close(const std::shared_ptr<QueueGroup>& group) {
    require(!inside_callback, CUDA_ERROR_NOT_PERMITTED);
    {
        const Lock lock(mutex_);
        group->closed = true;
    }
    group->fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    group->cancel.store(true, std::memory_order_relaxed);
    drain(group);
    const Lock lock(mutex_);
    group->legacy.reset();
    group->queues.clear();
    group->busy.clear();
}

}  // namespace softgpu::driver
