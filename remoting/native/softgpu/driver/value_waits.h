// Streams that wait for a value in memory. One thread looks at the memory for all of them, so that a wait
// that never comes true holds up its own stream and no thread that others need.
//
// A wait is two operations of its queue: the first, when the stream comes to it, gives the wait to this
// thread; the second starts after `met`, which ends when the value is there. It ends too when nobody may wait
// any more: the stream's context has failed or goes, or the session was interrupted or has ended.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "scheduler.h"
#include "session.h"
#include "stream_memory_op.h"

namespace softgpu::driver {

struct ValueWait {
    cuda::StreamMemoryOp op;  // of memory that stays readable until `met` has ended
    std::shared_ptr<QueueGroup> group;
    std::shared_ptr<Session> session;
    uint64_t interrupts = 0;  // the session's count when the wait was submitted
    CompletionRef met;
};

class ValueWaits {
  public:
    explicit ValueWaits(Scheduler& scheduler) : scheduler_(scheduler) {}

    void add(ValueWait wait);

  private:
    void watch();
    // Ends those that are over; false when there were none.
    bool look();

    Scheduler& scheduler_;
    std::vector<ValueWait> watched_;  // of the thread
    std::mutex mutex_;                // of what follows
    std::condition_variable added_;
    std::vector<ValueWait> new_;
    bool started_ = false;
};

}  // namespace softgpu::driver
