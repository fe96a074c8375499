// What a session's person is to be told and has not been told yet: device printf, places of faults, findings.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

#include "host_budget.h"
#include "payload.h"
#include "protocol.h"

namespace worker {

// Bounded, each session's and all sessions' together: of device printf the oldest goes first, as in the ring
// of a GPU; of the rest the newest.
class Notices {
  public:
    static constexpr uint64_t kOutputRoom = 1 << 20;  // CUDA's default
    static constexpr uint64_t kMostOutputRoom = 16 << 20;
    static constexpr uint64_t kOtherRoom = 256 << 10;

    // `budget`: of all sessions; it must outlive this.
    explicit Notices(HostBudget& budget) : budget_(budget) {}
    ~Notices();
    Notices(const Notices&) = delete;
    Notices& operator=(const Notices&) = delete;

    void add(wire::NoticeKind kind, std::string_view text);
    // What cudaLimitPrintfFifoSize asks for, within bounds.
    void set_output_room(uint64_t bytes);

    bool waiting() const { return waiting_.load(std::memory_order_acquire); }
    // Puts the oldest, as many as fit a reply, and forgets them.
    void take(wire::Writer& reply);

  private:
    struct Notice {
        wire::NoticeKind kind;
        std::string text;
    };
    // What it counts against the budget: a short text costs more than its bytes.
    static uint64_t cost(const Notice& notice) { return sizeof notice + notice.text.size(); }
    void add_output(std::string_view text);
    bool append(wire::NoticeKind kind, std::string_view text);
    void drop_oldest_output();
    void tell_lost(wire::Writer& reply);

    HostBudget& budget_;
    mutable std::mutex mutex_;
    std::deque<Notice> queue_;
    uint64_t output_bytes_ = 0, other_bytes_ = 0, output_room_ = kOutputRoom;
    uint64_t lost_output_ = 0, lost_others_ = 0;
    std::atomic<bool> waiting_{false};
};

}  // namespace worker
