#include "own_work.h"

#include <utility>

#include "session.h"
#include "worker.h"

namespace worker {

OwnWork::~OwnWork() {
    for (const CUstream stream : frees_) {
        if (stream) invoke(worker_.driver.cuStreamDestroy_v2, stream);
    }
}

// With mutex_ held.
CUresult OwnWork::record(Mark& mark, CUstream stream) {
    const Driver& driver = worker_.driver;
    if (!mark) {
        CUevent event = nullptr;
        if (CUresult error = invoke(driver.cuEventCreate, &event, unsigned{CU_EVENT_DISABLE_TIMING}))
            return error;
        mark = Mark(event, [&driver](CUevent last) { invoke(driver.cuEventDestroy_v2, last); });
    }
    return invoke(driver.cuEventRecord, mark.get(), stream);
}

// With mutex_ held. Lets go of what has come to its end.
void OwnWork::reap() {
    const NewsKept kept(worker_.driver);
    std::erase_if(left_, [this](const Mark& mark) {
        return invoke(worker_.driver.cuEventQuery, mark.get()) != CUDA_ERROR_NOT_READY;
    });
}

void OwnWork::used_default(uint8_t device) {
    pending_[device].store(true);
    // Another one came between: it has seen nothing to mark.
    if (!worker_.shared_streams.is_last(session_, device)) mark_default(device);
}

void OwnWork::mark_default(uint8_t device) {
    if (!pending_[device].load()) return;
    const std::lock_guard lock(mutex_);
    if (!pending_[device].exchange(false)) return;
    if (record(defaults_[device], CU_STREAM_LEGACY) != CUDA_SUCCESS) pending_[device].store(true);
}

void OwnWork::used_own(uint8_t device) {
    const std::lock_guard lock(mutex_);
    record(threads_[{std::this_thread::get_id(), device}], CU_STREAM_PER_THREAD);
}

void OwnWork::thread_ends() {
    const std::lock_guard lock(mutex_);
    reap();
    std::erase_if(threads_, [this](const auto& thread) {
        const bool own = thread.first.first == std::this_thread::get_id();
        if (own && thread.second) left_.push_back(thread.second);
        return own;
    });
}

void OwnWork::stream_ends(CUstream stream) {
    const NewsKept kept(worker_.driver);
    if (invoke(worker_.driver.cuStreamQuery, stream) != CUDA_ERROR_NOT_READY) return;
    const std::lock_guard lock(mutex_);
    reap();
    Mark end;
    record(end, stream);
    if (end) left_.push_back(end);
}

CUresult OwnWork::look(uint8_t device, Part part, Look look) {
    const Driver& driver = worker_.driver;
    const NewsKept kept(driver);
    std::vector<CUstream> streams;
    std::vector<Mark> ends;
    bool is_marked = true;
    session_.streams.each([&](const OnDevice<CUstream>& stream) {
        unsigned flags = 0;
        if (part == Part::blocking) invoke(driver.cuStreamGetFlags, stream.handle, &flags);
        const bool concerned = !(flags & CU_STREAM_NON_BLOCKING);
        if (stream.device != device || !concerned) return;
        // Another lane may destroy the stream as soon as this returns: only the software GPU finds that out.
        Mark end;
        if (driver.software) {
            streams.push_back(stream.handle);
        } else if (record(end, stream.handle) == CUDA_SUCCESS) {
            ends.push_back(std::move(end));
        } else {
            is_marked = false;
        }
    });
    mark_default(device);
    {
        const std::lock_guard lock(mutex_);
        ends.push_back(defaults_[device]);
        for (const auto& [thread, mark] : threads_) {
            if (thread.second == device) ends.push_back(mark);
        }
    }
    CUresult result = CUDA_SUCCESS;
    const auto note = [&result](CUresult one) {
        if (result == CUDA_SUCCESS) result = one;
    };
    const auto of_stream = look == Look::wait ? driver.cuStreamSynchronize : driver.cuStreamQuery;
    const auto of_mark = look == Look::wait ? driver.cuEventSynchronize : driver.cuEventQuery;
    for (const CUstream stream : streams) {
        // One that another lane has destroyed since is none any more; what it had still to do is in `left_`.
        if (const CUresult one = invoke(of_stream, stream); one != CUDA_ERROR_INVALID_HANDLE) note(one);
    }
    {
        const std::lock_guard lock(mutex_);
        ends.insert(ends.end(), left_.begin(), left_.end());
    }
    for (const Mark& end : ends) {
        if (end) note(invoke(of_mark, end.get()));
    }
    // The driver has no room for a mark.
    if (pending_[device].load()) note(invoke(of_stream, CU_STREAM_LEGACY));
    if (!is_marked) note(invoke(driver.cuCtxSynchronize));
    return result;
}

// cuMemFree waits for the whole context. A free in the order of a stream waits for that stream alone, and
// CUDA lets it free memory of cuMemAlloc too.
CUresult OwnWork::free(uint8_t device, uint64_t address) {
    const NewsKept kept(worker_.driver);
    const Driver& driver = worker_.driver;
    const auto memory = static_cast<CUdeviceptr>(address);
    const std::lock_guard lock(mutex_);
    CUstream& stream = frees_[device];
    constexpr unsigned kFlags = CU_STREAM_NON_BLOCKING;
    if (!stream && invoke(driver.cuStreamCreateWithPriority, &stream, kFlags, 0) != CUDA_SUCCESS)
        stream = nullptr;
    if (stream && invoke(driver.cuMemFreeAsync, memory, stream) == CUDA_SUCCESS)
        return invoke(driver.cuStreamSynchronize, stream);
    return invoke(driver.cuMemFree_v2, memory);
}

void SharedStreams::enter(Session& session, uint8_t device) {
    if (is_last(session, device)) return;
    Last& last = last_[device];
    std::shared_ptr<Session> before;
    {
        const std::lock_guard lock(last.mutex);
        before = std::exchange(last.session, session.shared_from_this());
        last.who.store(&session, std::memory_order_release);
    }
    if (before && before.get() != &session) before->own_work.mark_default(device);
}

void SharedStreams::forget(const Session& session) {
    for (Last& last : last_) {
        std::shared_ptr<Session> gone;  // let go without the lock
        const std::lock_guard lock(last.mutex);
        if (last.session.get() != &session) continue;
        gone = std::exchange(last.session, nullptr);
        last.who.store(nullptr, std::memory_order_release);
    }
}

}  // namespace worker
