// Whose work in a default stream ends where, when sessions take turns.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "../../../remoting/native/worker/session.h"
#include "../../../remoting/native/worker/worker.h"
#include "cases.h"

namespace {

std::atomic<int> marks{0};

// A driver that has events, and counts how often one is recorded.
struct Sharing {
    Sharing() {
        worker.driver.cuEventCreate = [](CUevent* event, unsigned) {
            *event = reinterpret_cast<CUevent>(&marks);
            return CUDA_SUCCESS;
        };
        worker.driver.cuEventRecord = [](CUevent, CUstream) {
            ++marks;
            return CUDA_SUCCESS;
        };
        marks = 0;
    }
    worker::Worker worker{-1, {16 << 20}};
    std::shared_ptr<worker::Session> one = std::make_shared<worker::Session>(worker, "one");
    std::shared_ptr<worker::Session> other = std::make_shared<worker::Session>(worker, "other");

    using Turn = worker::SharedStreams::Turn;
    void submit(worker::Session& session) {
        const Turn turn(worker.shared_streams, session, 0);
        session.own_work.used_default(0);
    }
};

}  // namespace

CASE(the_default_stream_is_marked_when_another_session_submits) {
    Sharing shared;
    shared.submit(*shared.one);
    shared.submit(*shared.one);
    EXPECT(marks == 0);
    shared.submit(*shared.other);
    EXPECT(marks == 1);
    shared.submit(*shared.other);
    EXPECT(marks == 1);
    shared.submit(*shared.one);
    EXPECT(marks == 2);
}

CASE(another_session_submits_once_the_call_under_way_is_submitted_or_waits) {
    Sharing shared;
    const auto begin = std::chrono::steady_clock::now();
    const Sharing::Turn turn(shared.worker.shared_streams, *shared.one, 0);
    std::thread([&] { shared.submit(*shared.other); }).join();
    EXPECT(std::chrono::steady_clock::now() - begin >= worker::OwnWork::kSubmission);
    EXPECT(marks == 0);
    shared.one->own_work.used_default(0);
    EXPECT(marks == 1);  // late, but there
}
