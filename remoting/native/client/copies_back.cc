#include "copies_back.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "call.h"
#include "interrupt.h"
#include "life.h"
#include "service_thread.h"
#include "session.h"

namespace client {
namespace {

// How often who waits looks whether there is still something to wait for.
constexpr std::chrono::microseconds kLook{wire::kLongWaitMicroseconds};

bool overlap(const wire::Box& box, uint64_t start, uint64_t bytes) {
    return box.address < start + bytes && start < box.address + wire::span(box);
}

// A worker that has failed, of which this thread has not heard, says so; what the byte is does not matter.
// An array has no address to look at.
void hear_from_worker(uint8_t device, uint64_t address) {
    if (!address) return;
    Call call;
    std::byte any;
    if (call.begin_on(device) == CUDA_SUCCESS) call.look(address, &any, sizeof any);
}

}  // namespace

// Made when the library is loaded: the child of a fork has nobody to finish what another thread has begun.
CopiesBack* const CopiesBack::present_ = new CopiesBack;

CUresult CopiesBack::submit(Call& call, const wire::Box& to, const wire::Box& from, uint64_t stream) {
    uint64_t ticket = 0;
    {
        Lock lock(mutex_);
        if (!has_receiver(lock)) {
            lock.unlock();
            return call.copy_box_out(to, from, stream);
        }
        if (!make_room(lock)) return Session::get().error();
        ticket = ++last_;
        copies_[ticket] = {.to = to, .from = from.array ? 0 : from.address, .device = call.device()};
        count_.store(copies_.size(), std::memory_order_release);
    }
    const wire::CopyBack message{{from, stream}, ticket};
    const CUresult result = call.post(wire::kOpCopyBack, 0, &message, sizeof message);
    if (result != CUDA_SUCCESS) give_up(ticket);
    return result;
}

// It could not be asked for. A worker may answer all the same, and bytes that arrive are waited for.
void CopiesBack::give_up(uint64_t ticket) {
    Lock lock(mutex_);
    const auto found = copies_.find(ticket);
    if (found == copies_.end()) return;
    if (!found->second.arriving) {
        end(lock, found);
    } else {
        wait(lock, [ticket](uint64_t other, const Copy&) { return other == ticket; });
    }
}

void CopiesBack::settle(uint64_t start, uint64_t bytes) {
    if (!any()) return;
    Lock lock(mutex_);
    wait(lock, [&, last = last_](uint64_t ticket, const Copy& copy) {
        return ticket <= last && overlap(copy.to, start, bytes);
    });
}

// Whoever closes the gate waits for this thread, and the new one waits for the gate.
bool CopiesBack::has_receiver(Lock& lock) {
    if (receiver_ == Receiver::none) {
        auto entry = [](void* life) -> void* {
            pthread_setname_np(pthread_self(), "gpu-copies");
            Thread::current().of_library = true;
            Thread::current().told = true;  // without a lane nothing is lost: calls wait for their copies
            get().receive(reinterpret_cast<uint64_t>(life));
            return nullptr;
        };
        receiver_ = Receiver::begins;
        if (!start_service_thread(entry, reinterpret_cast<void*>(life_))) receiver_ = Receiver::refused;
    }
    while (receiver_ == Receiver::begins && Session::get().error() == CUDA_SUCCESS)
        changed_.wait_for(lock, kLook);
    return receiver_ == Receiver::there;
}

bool CopiesBack::make_room(Lock& lock) {
    const auto is_full = [&] { return copies_.size() >= wire::kMostCopiesBack; };
    if (is_full()) wait(lock, [&](uint64_t, const Copy&) { return is_full(); });
    return !is_full();
}

void CopiesBack::wait(Lock& lock, const Concerns& concerns) {
    const auto is_awaited = [&](const auto& entry) {
        return entry.second.awaited && concerns(entry.first, entry.second);
    };
    const auto next = [&] { return std::find_if(copies_.begin(), copies_.end(), is_awaited); };
    InterruptWatch interrupts;
    while (!changed_.wait_for(lock, kLook, [&] { return next() == copies_.end(); })) {
        const Copy copy = next()->second;
        lock.unlock();
        interrupts.goes_on();
        hear_from_worker(copy.device, copy.from);
        lock.lock();
        if (Session::get().error() == CUDA_SUCCESS) continue;
        for (auto& entry : copies_) {
            if (is_awaited(entry) && !entry.second.arriving) entry.second.awaited = false;
        }
    }
    interrupts.over();
}

void CopiesBack::receive(uint64_t life) {
    const Entry entry;
    Call call;
    {
        const std::lock_guard lock(mutex_);
        if (life != life_) return;
    }
    const bool begins = call.begin_on(0) == CUDA_SUCCESS;
    {
        const std::lock_guard lock(mutex_);
        receiver_ = begins ? Receiver::there : Receiver::refused;
        changed_.notify_all();
    }
    for (uint64_t done = 0; begins && receive_next(call, done);) {
    }
    if (begins) forget();
}

bool CopiesBack::receive_next(Call& call, uint64_t& done) {
    wire::CopyBackReply next{};
    if (!call.next_copy_back(done, next)) return false;
    done = next.ticket;
    const std::optional<wire::Box> to = expect(next);
    if (!to) {
        Session::get().lose("it has sent what nobody has asked for");
        return false;
    }
    if (next.status == CUDA_SUCCESS) call.receive_box(*to);
    const Lock lock(mutex_);
    if (const auto found = copies_.find(next.ticket); found != copies_.end()) end(lock, found);
    return true;
}

// Where it goes: nothing when nothing of the kind is under way.
std::optional<wire::Box> CopiesBack::expect(const wire::CopyBackReply& next) {
    const std::lock_guard lock(mutex_);
    const auto found = copies_.find(next.ticket);
    if (found == copies_.end()) return std::nullopt;
    Copy& copy = found->second;
    if (next.status == CUDA_SUCCESS && !copy.awaited) return std::nullopt;
    copy.arriving = true;
    return copy.to;
}

void CopiesBack::end(const Lock&, Copies::iterator copy) {
    copies_.erase(copy);
    count_.store(copies_.size(), std::memory_order_release);
    changed_.notify_all();
}

void CopiesBack::forget() {
    const std::lock_guard lock(mutex_);
    copies_.clear();
    count_.store(0, std::memory_order_release);
    receiver_ = Receiver::none;
    changed_.notify_all();
}

void CopiesBack::forget_life() {
    forget();
    const std::lock_guard lock(mutex_);
    ++life_;
}

void CopiesBack::forget_after_fork() {
    new (&mutex_) std::mutex;
    new (&changed_) std::condition_variable;
    count_.store(0, std::memory_order_release);
    receiver_ = Receiver::none;
}

}  // namespace client
