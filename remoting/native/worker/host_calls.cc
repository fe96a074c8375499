#include "host_calls.h"

#include <chrono>

#include "handlers.h"

namespace worker {
namespace {

constexpr size_t kMostWaiting = 16384;  // what a client of ours asks for long before
constexpr std::chrono::milliseconds kLook{
    100};  // how often a parked thread looks whether its client is there

}  // namespace

void* HostCalls::expect(uint64_t ticket) {
    return new Expected{shared_from_this(), ticket};
}

void HostCalls::unexpect(void* expected) {
    delete static_cast<Expected*>(expected);
}

void CUDA_CB HostCalls::function(void* expected) {
    callback(nullptr, CUDA_SUCCESS, expected);
}

void CUDA_CB HostCalls::callback(CUstream, CUresult status, void* expected) {
    auto* one = static_cast<Expected*>(expected);
    const std::shared_ptr<HostCalls> calls = one->calls;
    const uint64_t ticket = one->ticket;
    delete one;
    calls->park(ticket, status);
}

std::unique_ptr<HostCalls::Expected> HostCalls::keep(uint64_t ticket) {
    return std::make_unique<Expected>(Expected{shared_from_this(), ticket});
}

void CUDA_CB HostCalls::kept_function(void* kept) {
    const auto* one = static_cast<Expected*>(kept);
    one->calls->park(one->ticket, CUDA_SUCCESS);
}

// With mutex_ held.
bool HostCalls::closed() {
    if (!closed_ && abandoned_()) {
        closed_ = true;
        changed_.notify_all();
    }
    return closed_;
}

void HostCalls::park(uint64_t ticket, CUresult status) {
    auto delivery = std::make_shared<Delivery>();
    delivery->reply = {ticket, static_cast<int32_t>(status), wire::HostCallNotice::call};
    std::unique_lock lock(mutex_);
    if (closed_) return;
    waiting_.push_back(delivery);
    changed_.notify_all();
    while (!delivery->done && !closed()) changed_.wait_for(lock, kLook);
}

bool HostCalls::refuse(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    if (closed_) return true;
    if (waiting_.size() >= kMostWaiting) return false;
    waiting_.push_back(
        std::make_shared<Delivery>(Delivery{{ticket, CUDA_SUCCESS, wire::HostCallNotice::drop}}));
    changed_.notify_all();
    return true;
}

HostCalls::Next HostCalls::next(uint64_t done, wire::HostCallReply& reply) {
    std::unique_lock lock(mutex_);
    if (listening_ || done != (running_ ? running_->reply.ticket : 0)) return Next::malformed;
    if (running_) {
        running_->done = true;
        running_ = nullptr;
        changed_.notify_all();
    }
    listening_ = true;
    while (waiting_.empty() && !closed()) changed_.wait_for(lock, kLook);
    listening_ = false;
    if (waiting_.empty()) return Next::gone;
    running_ = std::move(waiting_.front());
    waiting_.pop_front();
    reply = running_->reply;
    return Next::there;
}

bool HostCalls::waits() {
    const std::lock_guard lock(mutex_);
    return running_ || !waiting_.empty();
}

void HostCalls::close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
}

CUresult handle_host_call(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::HostCall message;
    if (!payload.take(message) || !payload.finished() || message.ticket == 0) return kMalformed;
    HostCalls& calls = *context.session().host_calls;
    CUstream stream;
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    if (context.stream(message.stream, stream)) {
        void* expected = calls.expect(message.ticket);
        result =
            message.with_status
                ? invoke(context.driver().cuStreamAddCallback, stream, &HostCalls::callback, expected, 0u)
                : invoke(context.driver().cuLaunchHostFunc, stream, &HostCalls::function, expected);
        if (result != CUDA_SUCCESS) HostCalls::unexpect(expected);
    }
    return result == CUDA_SUCCESS || calls.refuse(message.ticket) ? result : kMalformed;
}

}  // namespace worker
