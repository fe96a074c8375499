// What the calls of a device may take to work in, beside their operands. A call reserves all of it at once,
// before it begins, so that none holds a part and waits for the rest. Those that do not fit now wait in line;
// what fits beside the slice overtakes those that do not.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace maths {

// Where the memory comes from: the slice's account.
class Source {
  public:
    virtual ~Source() = default;
    virtual uint64_t all() const = 0;  // that there is, taken or not
    virtual bool take(uint64_t bytes) = 0;
    virtual void give_back(uint64_t bytes) = 0;
};

class Budget {
  public:
    // So much is beside the slice, so that calls go on in one that is full. It is the process's own.
    static constexpr uint64_t kBeside = 32 << 20;

    enum class Answer { reserved, stopped, too_large, none_left };

    // Part of the budget, given back at the end. The budget and the source must outlive it.
    class Room {
      public:
        Room() = default;
        Room(Room&& from) noexcept;
        Room& operator=(Room&& from) noexcept;
        ~Room() { give_back(); }

      private:
        friend class Budget;
        void give_back();

        Budget* budget_ = nullptr;
        Source* source_ = nullptr;
        uint64_t bytes_ = 0;
        bool is_beside_ = false;
    };

    // Waits in line for as long as others will give back what is missing; `stopped` is asked meanwhile. What
    // can never fit, and what does not fit while no other call has anything, is refused.
    Answer reserve(uint64_t bytes, Source& source, const std::function<bool()>& stopped, Room& room);
    size_t waiting() const;

  private:
    bool take(uint64_t bytes, Source& source, Room& room);

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    struct Waiting {
        const void* who;
        uint64_t bytes;
    };
    bool goes_before(const Waiting& head, uint64_t bytes) const;

    std::deque<Waiting> line_;
    uint64_t beside_ = 0;  // that are taken
    unsigned rooms_ = 0;
    unsigned in_slice_ = 0;  // of these, that are not beside it
};

}  // namespace maths
