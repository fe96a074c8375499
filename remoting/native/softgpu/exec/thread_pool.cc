// ThreadPool: a list of jobs; idle threads join the oldest job that still wants helpers.
#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>

#include "engine.h"

namespace softgpu {

struct ThreadPool::State {
    struct Job {
        const std::function<void()>* task;
        unsigned wanted;   // helpers that may still join
        unsigned running;  // helpers inside task()
    };
    std::mutex mutex;
    std::condition_variable work, left;
    std::list<Job*> jobs;
    bool stopping = false;
    std::vector<std::thread> threads;

    void serve() {
        std::unique_lock lock(mutex);
        for (;;) {
            work.wait(lock, [this] { return stopping || !jobs.empty(); });
            if (stopping) return;
            Job& job = *jobs.front();
            if (--job.wanted == 0) jobs.pop_front();
            ++job.running;
            lock.unlock();
            (*job.task)();
            lock.lock();
            if (--job.running == 0) left.notify_all();
        }
    }
};

ThreadPool::ThreadPool(unsigned threads) : state_(std::make_unique<State>()) {
    if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
    for (unsigned i = 1; i < threads; ++i) {
        try {
            state_->threads.emplace_back([state = state_.get()] { state->serve(); });
        } catch (const std::system_error&) {
            break;  // fewer threads only make launches slower
        }
    }
}

ThreadPool::~ThreadPool() {
    {
        const std::lock_guard lock(state_->mutex);
        state_->stopping = true;
    }
    state_->work.notify_all();
    for (auto& thread : state_->threads) thread.join();
}

unsigned ThreadPool::threads() const {
    return static_cast<unsigned>(state_->threads.size()) + 1;
}

void ThreadPool::run(unsigned helpers, const std::function<void()>& task) {
    State& state = *state_;
    helpers = std::min(helpers, threads() - 1);
    if (helpers == 0) return task();
    State::Job job{&task, helpers, 0};
    {
        const std::lock_guard lock(state.mutex);
        state.jobs.push_back(&job);
    }
    for (unsigned i = 0; i < helpers; ++i) state.work.notify_one();
    task();
    std::unique_lock lock(state.mutex);
    state.jobs.remove(&job);
    state.left.wait(lock, [&job] { return job.running == 0; });
}

}  // namespace softgpu
