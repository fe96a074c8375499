#include "thread.h"

#include <pthread.h>

#include <mutex>
#include <new>
#include <utility>

#include "host_calls.h"
#include "life.h"
#include "session.h"
#include "stream_event.h"

namespace client {
namespace {

// A pointer alone, so that the library needs next to no static thread-local space.
thread_local Thread* current_thread __attribute__((tls_model("initial-exec"))) = nullptr;

pthread_key_t key;
pthread_once_t key_once = PTHREAD_ONCE_INIT;

struct All {
    std::mutex mutex;
    Thread* first = nullptr;
    uint64_t last_number = 0;
};

All& all() {
    static auto* threads = new All;
    return *threads;
}

void after_fork() {
    Session::get().forget_after_fork();
}

}  // namespace

Thread::Thread() {
    const std::lock_guard lock(all().mutex);
    number = ++all().last_number;
    next_ = all().first;
    if (next_) next_->previous_ = this;
    all().first = this;
}

Thread::~Thread() {
    const std::lock_guard lock(all().mutex);
    (previous_ ? previous_->next_ : all().first) = next_;
    if (next_) next_->previous_ = previous_;
}

void Thread::tell() {
    const std::vector<std::function<void()>> told = std::exchange(to_tell, {});
    const bool before = std::exchange(in_callback, true);  // they may call nothing of CUDA
    for (const auto& one : told) one();
    in_callback = before;
}

void Thread::ended(void* pointer) {
    auto* thread = static_cast<Thread*>(pointer);
    current_thread = thread;
    {
        const Entry entry;
        if (thread->lane) Session::get().give_back(thread->lane);
        thread->lane = nullptr;
        // The child of a fork may find a lock taken by a thread that it has not.
        if (Session::get().error() != CUDA_ERROR_NOT_INITIALIZED) forget_streams_of_thread(thread->number);
    }
    HostCalls* const served = thread->in_callback ? thread->serves : nullptr;
    current_thread = nullptr;
    delete thread;
    if (served) served->thread_ended_in_function();
}

Thread& Thread::current() {
    if (!current_thread) [[unlikely]] {
        pthread_once(&key_once, [] {
            pthread_key_create(&key, &Thread::ended);
            pthread_atfork(nullptr, nullptr, after_fork);
        });
        current_thread = new Thread;
        pthread_setspecific(key, current_thread);
    }
    return *current_thread;
}

bool Thread::lives(uint64_t number) {
    const std::lock_guard lock(all().mutex);
    for (const Thread* thread = all().first; thread; thread = thread->next_) {
        if (thread->number == number) return true;
    }
    return false;
}

bool Thread::any_inside() {
    const std::lock_guard lock(all().mutex);
    for (const Thread* thread = all().first; thread; thread = thread->next_) {
        if (thread->inside.load(std::memory_order_seq_cst)) return true;
    }
    return false;
}

void Thread::forget_life() {
    const std::lock_guard lock(all().mutex);
    for (Thread* thread = all().first; thread; thread = thread->next_) {
        thread->lane = nullptr;
        thread->told = false;
        thread->contexts.clear();
    }
}

// No lock of the parent's is taken, and nothing allocated.
void Thread::forget_after_fork() {
    new (&all().mutex) std::mutex;
    all().first = current_thread;
    if (!current_thread) return;
    current_thread->previous_ = current_thread->next_ = nullptr;
    current_thread->lane = nullptr;
}

}  // namespace client
