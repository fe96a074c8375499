// Streams and events: handles over the scheduler's queues and completions.
#pragma once

#include <mutex>

#include "handles.h"
#include "scheduler.h"

namespace softgpu::driver {

class Context;

class Stream : public Object {
  public:
    static constexpr Kind kKind = Kind::stream;
    Stream(std::shared_ptr<Context> context, std::shared_ptr<Queue> queue, unsigned flags, uint64_t id)
        : Object(kKind), context(std::move(context)), queue(std::move(queue)), flags(flags), id(id) {}

    const std::shared_ptr<Context> context;
    const std::shared_ptr<Queue> queue;
    const unsigned flags;  // CU_STREAM_NON_BLOCKING or 0
    const uint64_t id;     // unique in the process
    ~Stream() override;
};

class Event : public Object {
  public:
    static constexpr Kind kKind = Kind::event;
    Event(std::shared_ptr<Context> context, unsigned flags)
        : Object(kKind), context(std::move(context)), flags(flags) {}

    const std::shared_ptr<Context> context;
    const unsigned flags;  // CU_EVENT_*
    ~Event() override;

    struct Record {
        CompletionRef completion;  // null: never recorded, which counts as complete
        std::shared_ptr<Queue> queue;
    };
    Record record() const {
        const std::lock_guard lock(mutex_);
        return record_;
    }
    void set(Record record) {
        const std::lock_guard lock(mutex_);
        record_ = std::move(record);
    }

  private:
    mutable std::mutex mutex_;
    Record record_;
};

}  // namespace softgpu::driver
