#include "own_work.h"

#include <chrono>
#include <utility>

#include "in_context.h"
#include "session.h"
#include "worker.h"

namespace worker {

OwnWork::~OwnWork() {
    for (const CUstream stream : frees_) {
        if (stream) invoke(worker_.driver.cuStreamDestroy_v2, stream);
    }
}

// With mutex_ held where others may use `mark`. Who waits for one has its own hold on it.
CUresult OwnWork::record(Mark& mark, CUstream stream) {
    const Driver& driver = worker_.driver;
    if (mark.use_count() != 1) {
        CUevent event = nullptr;
        const CUresult made = invoke(driver.cuEventCreate, &event, unsigned{CU_EVENT_DISABLE_TIMING});
        if (made == CUDA_SUCCESS) {
            mark = Mark(event, [&driver](CUevent last) { invoke(driver.cuEventDestroy_v2, last); });
        } else if (!mark) {
            return made;
        }  // else who waits waits longer
    }
    return invoke(driver.cuEventRecord, mark.get(), stream);
}

// With mutex_ held. Lets go of what has come to its end.
void OwnWork::reap() {
    const NewsKept kept(worker_.driver);
    std::erase_if(left_, [this](const Left& left) {
        return invoke(worker_.driver.cuEventQuery, left.end.get()) != CUDA_ERROR_NOT_READY;
    });
}

void OwnWork::used_default(uint8_t device) {
    state_[device] |= kPending;
    // Another one came between, and did not wait for this call: it has seen nothing to mark.
    if (!worker_.shared_streams.is_last(session_, device)) mark_default(device);
}

CUresult OwnWork::mark_default(uint8_t device) {
    if (!(state_[device] & kPending)) return CUDA_SUCCESS;
    const std::lock_guard lock(mutex_);
    if (!(state_[device].fetch_and(uint8_t(~kPending)) & kPending)) return CUDA_SUCCESS;
    const CUresult result = record(defaults_[device], CU_STREAM_LEGACY);
    if (result != CUDA_SUCCESS) state_[device] |= kPending;
    return result;
}

void OwnWork::others_submit(uint8_t device) {
    // A call may wait in the driver, behind work that never ends: then it is marked when it returns.
    const auto until = std::chrono::steady_clock::now() + kSubmission;
    while ((state_[device] & kSubmitting) && std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
    mark_default(device);
}

void OwnWork::used_own(uint8_t device) {
    const std::lock_guard lock(mutex_);
    if (record(threads_[{std::this_thread::get_id(), device}], CU_STREAM_PER_THREAD) != CUDA_SUCCESS)
        invoke(worker_.driver.cuStreamSynchronize, CU_STREAM_PER_THREAD);
}

void OwnWork::thread_ends() {
    const std::lock_guard lock(mutex_);
    reap();
    std::erase_if(threads_, [this](const auto& thread) {
        const auto& [id, device] = thread.first;
        if (id != std::this_thread::get_id()) return false;
        if (thread.second) left_.push_back({thread.second, device, true});
        return true;
    });
}

void OwnWork::stream_ends(CUstream stream, uint8_t device) {
    const Driver& driver = worker_.driver;
    const NewsKept kept(driver);
    if (invoke(driver.cuStreamQuery, stream) != CUDA_ERROR_NOT_READY) return;
    unsigned flags = 0;
    invoke(driver.cuStreamGetFlags, stream, &flags);
    Mark end;
    {
        const std::lock_guard lock(mutex_);
        reap();
        if (record(end, stream) == CUDA_SUCCESS) {
            left_.push_back({std::move(end), device, !(flags & CU_STREAM_NON_BLOCKING)});
            return;
        }
    }
    invoke(driver.cuStreamSynchronize, stream);
}

namespace {

bool concerns(const Driver& driver, CUstream stream, OwnWork::Part part) {
    unsigned flags = 0;
    if (part == OwnWork::Part::blocking) invoke(driver.cuStreamGetFlags, stream, &flags);
    return !(flags & CU_STREAM_NON_BLOCKING);
}

}  // namespace

// Marks what the session's streams have to do now. Another lane may destroy one of them once their table is
// not held: only the software GPU finds that out, and only it is not asked with the table held, as its
// streams may have no room for a mark.
CUresult OwnWork::mark_streams(uint8_t device, Part part, std::vector<Mark>& ends) {
    const Driver& driver = worker_.driver;
    CUresult result = CUDA_SUCCESS;
    const auto mark = [&](CUstream stream) {
        if (!concerns(driver, stream, part)) return;
        Mark end;
        const CUresult one = record(end, stream);
        if (one == CUDA_SUCCESS) ends.push_back(std::move(end));
        // One that has gone: its mark is in `left_`.
        if (one != CUDA_SUCCESS && one != CUDA_ERROR_INVALID_HANDLE) result = one;
    };
    std::vector<CUstream> streams;
    session_.streams.each([&](const OnDevice<CUstream>& stream) {
        if (stream.device != device) return;
        driver.software ? streams.push_back(stream.handle) : mark(stream.handle);
    });
    for (const CUstream stream : streams) mark(stream);
    return result;
}

// Whether one of them has something to do.
CUresult OwnWork::ask_streams(uint8_t device, Part part) {
    const Driver& driver = worker_.driver;
    CUresult result = CUDA_SUCCESS;
    session_.streams.each([&](const OnDevice<CUstream>& stream) {
        if (stream.device != device || result != CUDA_SUCCESS || !concerns(driver, stream.handle, part))
            return;
        result = invoke(driver.cuStreamQuery, stream.handle);
    });
    return result;
}

CUresult OwnWork::look(uint8_t device, Part part, Look look, CUresult& unmarked) {
    const Driver& driver = worker_.driver;
    const NewsKept kept(driver);
    const InContext context(worker_, device);
    std::vector<Mark> ends;
    CUresult result = CUDA_SUCCESS;
    if (look == Look::ask) {
        result = ask_streams(device, part);
    } else {
        unmarked = mark_streams(device, part, ends);
    }
    if (const CUresult one = mark_default(device); one != CUDA_SUCCESS) unmarked = one;
    {
        const std::lock_guard lock(mutex_);  // after the streams: one that was not among them is in `left_`
        if (defaults_[device]) ends.push_back(defaults_[device]);
        for (const auto& [thread, mark] : threads_) {
            if (thread.second == device && mark) ends.push_back(mark);
        }
        for (const Left& left : left_) {
            if (left.device == device && (part == Part::all || left.blocking)) ends.push_back(left.end);
        }
    }
    const auto of_mark = look == Look::wait ? driver.cuEventSynchronize : driver.cuEventQuery;
    for (const Mark& end : ends) {
        if (const CUresult one = invoke(of_mark, end.get()); result == CUDA_SUCCESS) result = one;
    }
    return result;
}

CUresult OwnWork::look(uint8_t device, Part part, Look how) {
    CUresult unmarked = CUDA_SUCCESS;
    const CUresult result = look(device, part, how, unmarked);
    return result == CUDA_SUCCESS ? unmarked : result;
}

CUresult OwnWork::wait(uint8_t device) {
    CUresult unmarked = CUDA_SUCCESS;
    const CUresult result = look(device, Part::all, Look::wait, unmarked);
    if (unmarked == CUDA_SUCCESS) return result;
    const NewsKept kept(worker_.driver);
    const InContext context(worker_, device);
    const CUresult all = invoke(worker_.driver.cuCtxSynchronize);
    return result == CUDA_SUCCESS ? all : result;
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

SharedStreams::Turn::Turn(SharedStreams& streams, Session& session, uint8_t device)
    : state_(session.own_work.state_[device]) {
    // Once the call is under way and nobody has entered since, who enters waits for it. Others may enter
    // again and again: then the call goes on, and is marked late.
    for (int tries = 0; tries < 4; ++tries) {
        streams.enter(session, device);
        state_ |= OwnWork::kSubmitting;
        if (streams.is_last(session, device)) return;
        state_ &= uint8_t(~OwnWork::kSubmitting);
    }
}

SharedStreams::Turn::~Turn() {
    state_ &= uint8_t(~OwnWork::kSubmitting);
}

void SharedStreams::enter(Session& session, uint8_t device) {
    if (is_last(session, device)) return;
    Last& last = last_[device];
    std::shared_ptr<Session> before;
    {
        const std::lock_guard lock(last.mutex);
        before = std::exchange(last.session, session.shared_from_this());
        last.who.store(&session);
    }
    if (before && before.get() != &session) before->own_work.others_submit(device);
}

void SharedStreams::forget(const Session& session) {
    for (Last& last : last_) {
        std::shared_ptr<Session> gone;  // let go without the lock
        const std::lock_guard lock(last.mutex);
        if (last.session.get() != &session) continue;
        gone = std::exchange(last.session, nullptr);
        last.who.store(nullptr);
    }
}

}  // namespace worker
