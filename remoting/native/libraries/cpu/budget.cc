#include "budget.h"

#include <chrono>
#include <utility>

namespace maths {

Budget::Room::Room(Room&& from) noexcept {
    *this = std::move(from);
}

Budget::Room& Budget::Room::operator=(Room&& from) noexcept {
    if (this == &from) return *this;
    give_back();
    budget_ = std::exchange(from.budget_, nullptr);
    source_ = from.source_, bytes_ = from.bytes_, is_beside_ = from.is_beside_;
    return *this;
}

void Budget::Room::give_back() {
    Budget* const budget = std::exchange(budget_, nullptr);
    if (!budget) return;
    if (!is_beside_) source_->give_back(bytes_);
    {
        const std::lock_guard lock(budget->mutex_);
        if (is_beside_) budget->beside_ -= bytes_;
        if (!is_beside_) --budget->in_slice_;
        --budget->rooms_;
    }
    budget->changed_.notify_all();
}

// With mutex_ held.
bool Budget::take(uint64_t bytes, Source& source, Room& room) {
    const bool is_beside = bytes <= kBeside - beside_;
    if (!is_beside && !source.take(bytes)) return false;
    if (is_beside) beside_ += bytes;
    if (!is_beside) ++in_slice_;
    ++rooms_;
    room.budget_ = this, room.source_ = &source, room.bytes_ = bytes, room.is_beside_ = is_beside;
    return true;
}

Budget::Answer Budget::reserve(uint64_t bytes, Source& source, const std::function<bool()>& stopped,
                               Room& room) {
    constexpr std::chrono::milliseconds kLook{50};
    if (bytes > source.all() && bytes > kBeside) return Answer::too_large;
    std::unique_lock lock(mutex_);
    const void* const me = &lock;
    line_.push_back({me, bytes});
    Answer answer = Answer::stopped;
    while (!stopped()) {
        const bool is_first = line_.front().who == me || goes_before(line_.front(), bytes);
        if (is_first && take(bytes, source, room)) answer = Answer::reserved;
        // What is beside the slice gives nothing back to those that do not fit there.
        const unsigned awaited = bytes > kBeside ? in_slice_ : rooms_;
        if (is_first && answer != Answer::reserved && awaited == 0) answer = Answer::none_left;
        if (answer != Answer::stopped) break;
        changed_.wait_for(lock, kLook);
    }
    std::erase_if(line_, [me](const Waiting& each) { return each.who == me; });
    lock.unlock();
    changed_.notify_all();
    return answer;
}

// With mutex_ held. The head does not miss what it cannot use.
bool Budget::goes_before(const Waiting& head, uint64_t bytes) const {
    return head.bytes > kBeside && bytes <= kBeside - beside_;
}

size_t Budget::waiting() const {
    const std::lock_guard lock(mutex_);
    return line_.size();
}

}  // namespace maths
