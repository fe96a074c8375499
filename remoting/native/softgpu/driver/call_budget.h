// What library calls may take to work in, beside their operands. A call reserves all of it at once, before it
// changes anything, so that none holds a part and waits for the rest. Nobody waits here: a call that does not
// fit now stands in line, is put back to the head of its stream, and is woken when it has its room, or cannot
// have it any more.
//
// The line is that of the process. Each device's account is given out in the order in which calls came, and
// so is what is beside the slices; who waits for one keeps nobody from the other. When a session has got
// room, what else of it waits for the same goes behind the others.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace softgpu::driver {

// Where the memory comes from: a device's account.
class Account {
  public:
    virtual ~Account() = default;
    virtual uint64_t all() const = 0;  // that there is, taken or not
    virtual bool take(uint64_t bytes) = 0;
    virtual void give_back(uint64_t bytes) = 0;
};

class CallBudget {
  public:
    // So much is beside the slices, so that small calls go on where one is full. It is the process's own.
    static constexpr uint64_t kBeside = 32 << 20;

    enum class Answer { reserved, in_line, too_large, none_left };

    // A call's place in line, and then its room, which is given back at the end. The budget and the account
    // must outlive it.
    class Place {
      public:
        // `wake` is called once each time the call was in line and is to ask again; by any thread, which
        // holds no lock of the budget's.
        Place(CallBudget& budget, Account& account, const void* session, const void* context,
              std::function<void()> wake)
            : budget_(budget),
              account_(account),
              session_(session),
              context_(context),
              wake_(std::move(wake)) {}
        ~Place() { budget_.leave(*this); }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;

        // What can never fit, and what does not fit while no other call has anything, is refused. A call that
        // asks again for as much has what it was woken for; one that asks for more has given back what it
        // had, and one that asks for less keeps it.
        Answer reserve(uint64_t bytes) { return budget_.reserve(bytes, *this); }
        // Gives back its room, and its place in line.
        void leave() { budget_.leave(*this); }

      private:
        friend class CallBudget;
        enum class State { out, in_line, in_slice, beside, refused };

        CallBudget& budget_;
        Account& account_;
        const void* const session_;
        const void* const context_;
        const std::function<void()> wake_;
        uint64_t bytes_ = 0;
        State state_ = State::out;
    };

    // Wakes the session's calls in line, which leave it; or the context's.
    void wake_session(const void* session);
    void wake_context(const void* context);

    // For an allocation that finds no room: tries `again` until it does, or none of the session's own calls
    // has room in the account. Its other calls that come meanwhile stand in line.
    bool wait_for_own(const Account& account, const void* session, const std::function<bool()>& again);

    size_t waiting() const;

  private:
    using Woken = std::vector<std::function<void()>>;
    template <typename Concerned>
    void wake(Concerned concerned);
    static bool compete(const Place& place, const Place& other);
    Answer reserve(uint64_t bytes, Place& place);
    void leave(Place& place);
    void give_back(Place& place);
    Woken settle();
    bool serve_one(Woken& woken);
    bool take(Place& place, bool small_waits, bool is_first);
    bool is_awaited(const Place& place) const;
    bool allocates(const Place& place) const;

    mutable std::mutex mutex_;
    std::condition_variable given_back_;
    std::deque<Place*> line_;
    std::vector<const Place*> rooms_;  // of those that have one
    uint64_t beside_ = 0;              // that are taken
    struct Allocating {
        const Account* account;
        const void* session;
    };
    std::vector<Allocating> allocating_;
};

}  // namespace softgpu::driver
