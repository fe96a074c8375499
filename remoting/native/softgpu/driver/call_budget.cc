#include "call_budget.h"

#include <algorithm>
#include <utility>

namespace softgpu::driver {
namespace {

void call_all(const std::vector<std::function<void()>>& woken) {
    for (const auto& wake : woken) wake();
}

}  // namespace

CallBudget::Answer CallBudget::reserve(uint64_t bytes, Place& place) {
    using State = Place::State;
    if (bytes > place.account_.all() && bytes > kBeside) return Answer::too_large;
    std::unique_lock lock(mutex_);
    const bool has_room = place.state_ == State::in_slice || place.state_ == State::beside;
    if (has_room ? place.bytes_ < bytes : place.bytes_ != bytes) give_back(place);
    if (place.state_ == State::out) {
        place.bytes_ = bytes;
        place.state_ = State::in_line;
        line_.push_back(&place);
    }
    Woken woken = settle();
    Answer answer = Answer::reserved;
    if (place.state_ == State::in_line) answer = Answer::in_line;
    if (place.state_ == State::refused) answer = Answer::none_left;
    lock.unlock();
    call_all(woken);
    return answer;
}

// With mutex_ held.
void CallBudget::give_back(Place& place) {
    using State = Place::State;
    const State was = std::exchange(place.state_, State::out);
    if (was == State::in_line) std::erase(line_, &place);
    if (was == State::in_slice) place.account_.give_back(place.bytes_);
    if (was == State::beside) beside_ -= place.bytes_;
    if (was != State::in_slice && was != State::beside) return;
    std::erase(rooms_, &place);
    given_back_.notify_all();
}

void CallBudget::leave(Place& place) {
    std::unique_lock lock(mutex_);
    give_back(place);
    const Woken woken = settle();
    lock.unlock();
    call_all(woken);
}

void CallBudget::wake_session(const void* session) {
    wake([session](const Place& place) { return place.session_ == session; });
}

void CallBudget::wake_context(const void* context) {
    wake([context](const Place& place) { return place.context_ == context; });
}

template <typename Concerned>
void CallBudget::wake(Concerned concerned) {
    Woken woken;
    {
        const std::lock_guard lock(mutex_);
        for (Place* const place : std::deque<Place*>(line_)) {
            if (!concerned(*place)) continue;
            give_back(*place);
            woken.push_back(place->wake_);
        }
        for (auto& wake : settle()) woken.push_back(std::move(wake));
    }
    call_all(woken);
}

// Whether `other` waits for what its session has just got: in the slice, or beside it.
bool CallBudget::compete(const Place& place, const Place& other) {
    if (place.session_ != other.session_) return false;
    return place.state_ == Place::State::beside ? other.bytes_ <= kBeside
                                                : &place.account_ == &other.account_;
}

// With mutex_ held. Gives out what there is.
CallBudget::Woken CallBudget::settle() {
    Woken woken;
    while (serve_one(woken)) {
    }
    return woken;
}

// With mutex_ held. The first in line who can have room has it, or is told that there is none to come.
bool CallBudget::serve_one(Woken& woken) {
    std::vector<const Account*> waited_for;
    bool small_waits = false;
    for (Place* const place : line_) {
        const bool is_first =
            std::find(waited_for.begin(), waited_for.end(), &place->account_) == waited_for.end();
        const bool has = take(*place, small_waits, is_first);
        if (!has && (!is_first || is_awaited(*place))) {
            waited_for.push_back(&place->account_);
            small_waits = small_waits || place->bytes_ <= kBeside;
            continue;
        }
        std::erase(line_, place);
        if (has) {
            rooms_.push_back(place);
            std::stable_partition(line_.begin(), line_.end(),
                                  [place](const Place* other) { return !compete(*place, *other); });
        } else {
            place->state_ = Place::State::refused;
        }
        woken.push_back(place->wake_);
        return true;
    }
    return false;
}

// With mutex_ held.
bool CallBudget::take(Place& place, bool small_waits, bool is_first) {
    if (!small_waits && place.bytes_ <= kBeside - beside_) {
        beside_ += place.bytes_;
        place.state_ = Place::State::beside;
        return true;
    }
    if (!is_first || allocates(place) || !place.account_.take(place.bytes_)) return false;
    place.state_ = Place::State::in_slice;
    return true;
}

// With mutex_ held. Whether somebody will give back what the call can use: what is beside the slice gives
// nothing to those that do not fit there.
bool CallBudget::is_awaited(const Place& place) const {
    const bool small = place.bytes_ <= kBeside;
    return allocates(place) || std::any_of(rooms_.begin(), rooms_.end(), [&](const Place* other) {
               return other->state_ == Place::State::beside ? small : &other->account_ == &place.account_;
           });
}

bool CallBudget::allocates(const Place& place) const {
    return std::any_of(allocating_.begin(), allocating_.end(), [&](const Allocating& one) {
        return one.account == &place.account_ && one.session == place.session_;
    });
}

bool CallBudget::wait_for_own(const Account& account, const void* session,
                              const std::function<bool()>& again) {
    const auto has_room = [&] {
        return std::any_of(rooms_.begin(), rooms_.end(), [&](const Place* room) {
            return room->state_ == Place::State::in_slice && &room->account_ == &account &&
                   room->session_ == session;
        });
    };
    std::unique_lock lock(mutex_);
    allocating_.push_back({&account, session});
    bool found;
    while (!(found = again()) && has_room()) given_back_.wait(lock);
    allocating_.erase(std::find_if(allocating_.begin(), allocating_.end(), [&](const Allocating& one) {
        return one.account == &account && one.session == session;
    }));
    const Woken woken = settle();
    lock.unlock();
    call_all(woken);
    return found;
}

size_t CallBudget::waiting() const {
    const std::lock_guard lock(mutex_);
    return line_.size();
}

}  // namespace softgpu::driver
