#include "host_calls.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>

#include "call.h"
#include "calls_wire.h"
#include "life.h"
#include "service_thread.h"
#include "session.h"
#include "shared_memory.h"
#include "stream_event.h"
#include "thread.h"

namespace client {
namespace {

bool is_legacy(uint64_t stream) {
    return stream < kPerThreadStreamHandle;
}

// One that was destroyed may have been of either kind.
bool is_blocking(uint64_t stream) {
    if (stream <= kPerThreadStreamHandle) return true;
    const Stream* known = streams().find(stream);
    return !known || !(known->flags & CU_STREAM_NON_BLOCKING);
}

// Whether what is given to `stream` now waits for what was given to `earlier` before.
bool comes_after(uint64_t stream, uint64_t earlier) {
    if (stream == earlier) return true;
    return (is_legacy(stream) && is_blocking(earlier)) || (is_legacy(earlier) && is_blocking(stream));
}

}  // namespace

std::atomic<HostCalls*> HostCalls::present_{nullptr};

HostCalls& HostCalls::get() {
    static auto* const first = [] { return present_ = new HostCalls; }();
    (void)first;
    return *present_.load(std::memory_order_acquire);
}

void HostCalls::end_life() {
    HostCalls& before = get();
    auto* next = new HostCalls;
    next->last_ = before.last_;  // a ticket is given out once
    present_ = next;
    before.let_go();
}

void HostCalls::let_go() {
    if (holders_.fetch_sub(1) == 1) delete this;
}

uint64_t HostCalls::add(const HostFunction& function, uint64_t stream) {
    const std::lock_guard lock(mutex_);
    if (lost_ || !start()) return 0;
    const uint64_t ticket = ++last_;
    entries_[ticket] = {function, {stream}};
    return ticket;
}

uint64_t HostCalls::keep(const HostFunction& function) {
    const std::lock_guard lock(mutex_);
    if (lost_ || !start()) return 0;
    const uint64_t ticket = ++last_;
    entries_[ticket] = {function, {}, true};
    return ticket;
}

void HostCalls::launch(uint64_t ticket, uint64_t stream) {
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(ticket); found != entries_.end())
        found->second.streams.push_back(stream);
}

void HostCalls::release(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(ticket);
    if (found == entries_.end()) return;
    found->second.kept = false;
    if (found->second.streams.empty()) entries_.erase(found);
}

// The function was called for the first of its streams, or will not be.
void HostCalls::end_call(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(ticket);
    if (found == entries_.end()) return;
    Given& entry = found->second;
    if (!entry.streams.empty()) entry.streams.pop_front();
    if (!entry.kept && entry.streams.empty()) entries_.erase(found);
    changed_.notify_all();
}

void HostCalls::drop(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    entries_.erase(ticket);
    changed_.notify_all();
}

CUresult HostCalls::wait_for(uint64_t stream, Call& call) {
    constexpr std::chrono::milliseconds kLook{200};
    if (Thread::current().in_callback) return CUDA_SUCCESS;
    std::unique_lock lock(mutex_);
    const uint64_t last = last_;
    auto called = [&] {
        return std::none_of(entries_.begin(), entries_.upper_bound(last), [&](const auto& entry) {
            const auto& streams = entry.second.streams;
            return std::any_of(streams.begin(), streams.end(),
                               [&](uint64_t earlier) { return comes_after(stream, earlier); });
        });
    };
    // A stream whose context has failed comes to nothing any more, and the worker says so when it is asked.
    while (!changed_.wait_for(lock, kLook, called)) {
        lock.unlock();
        const wire::cuStreamQuery_message message{stream};
        const CUresult state = call.ask(wire::kOp_cuStreamQuery, 0, &message, sizeof message, nullptr, 0);
        if (state != CUDA_SUCCESS && state != CUDA_ERROR_NOT_READY) return state;
        lock.lock();
    }
    return CUDA_SUCCESS;
}

// With mutex_ held.
bool HostCalls::start() {
    if (!started_) started_ = start_thread();
    return started_;
}

bool HostCalls::start_thread() {
    auto entry = [](void* pointer) -> void* {
        pthread_setname_np(pthread_self(), "gpu-host-calls");
        auto* calls = static_cast<HostCalls*>(pointer);
        Thread::current().serves = calls;
        Thread::current().of_library = true;
        calls->serve(calls->ended_within_.exchange(0));
        calls->let_go();
        return nullptr;
    };
    holders_.fetch_add(1);
    const bool made = start_service_thread(entry, this);
    if (!made) holders_.fetch_sub(1);  // not the last: somebody calls this
    return made;
}

// Nothing here has a destructor while a function runs: it may end this thread, which unwinds these frames.
void HostCalls::serve(uint64_t done) {
    wire::HostCallReply reply{};
    while (next(done, reply)) {
        done = reply.ticket;
        if (prepare(reply)) {
            run(static_cast<CUresult>(reply.status));
            after_call();
        } else if (!is_present()) {
            continue;  // the life has ended: next() tells this one too, with all that are left
        }
        end_call(done);
    }
}

bool HostCalls::next(uint64_t done, wire::HostCallReply& reply) {
    CUresult error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (const Entry entry; is_present()) {
        Call call;
        error = call.begin_on(0);
        if (error == CUDA_SUCCESS)
            error = call.ask(wire::kOpNextHostCall, 0, &done, sizeof done, &reply, sizeof reply);
    }
    if (error != CUDA_SUCCESS) lost(error);
    return error == CUDA_SUCCESS;
}

// False when there is nothing to call.
bool HostCalls::prepare(const wire::HostCallReply& reply) {
    const Entry entry;
    if (!is_present()) return false;
    {
        const std::lock_guard lock(mutex_);
        const auto found = entries_.find(reply.ticket);
        if (found == entries_.end()) return false;
        running_ = found->second.function;
        running_ticket_ = reply.ticket;
    }
    if (reply.what != wire::HostCallNotice::call || interpreter_ended_) return false;
    const bool shared = SharedMemory::get().any();
    if (Call call; (shared || running_.before) && call.begin_on(0) == CUDA_SUCCESS) {
        if (shared) SharedMemory::get().show_function(call);
        if (running_.before) running_.before(call);
    }
    return true;
}

// What the function has written is where work behind it looks.
void HostCalls::after_call() {
    const Entry entry;
    if (!is_present()) return;
    const bool shared = SharedMemory::get().any();
    if (Call call; (shared || running_.after) && call.begin_on(0) == CUDA_SUCCESS) {
        if (shared) SharedMemory::get().take_changes(call);
        if (running_.after) running_.after(call);
    }
}

void HostCalls::run(CUresult status) {
    Thread::current().in_callback = true;
    if (running_.callback) {
        running_.callback(running_.stream, status, running_.data);
    } else {
        running_.function(running_.data);
    }
    Thread::current().in_callback = false;
}

void HostCalls::thread_ended_in_function() {
    interpreter_ended_ = true;
    end_call(running_ticket_);
    ended_within_ = running_ticket_;
    start_thread();
    let_go();
}

// Nobody will say when streams come to what is left. Callbacks are called all the same, with the error, as
// CUDA does in a context that has failed.
void HostCalls::lost(CUresult error) {
    std::map<uint64_t, Given> left;
    {
        const std::lock_guard lock(mutex_);
        lost_ = true;
        left.swap(entries_);
    }
    for (const auto& [ticket, entry] : left) {
        if (!entry.function.callback) continue;
        running_ = entry.function;
        run(error);
    }
    changed_.notify_all();
}

}  // namespace client
