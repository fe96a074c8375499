#include "notices.h"

#include <algorithm>

namespace worker {
namespace {

constexpr size_t kPiece = 4096;  // calls of printf are kept together up to this size

void put(wire::Writer& reply, wire::NoticeKind kind, std::string_view text) {
    reply.put(wire::NoticeHead{static_cast<uint32_t>(kind), static_cast<uint32_t>(text.size())});
    reply.put_text(text);
}

}  // namespace

Notices::~Notices() {
    for (const Notice& notice : queue_) budget_.give_back(cost(notice));
}

void Notices::add(wire::NoticeKind kind, std::string_view text) {
    text = text.substr(0, wire::kMaxNoticeText);
    if (text.empty()) return;
    const std::lock_guard lock(mutex_);
    if (kind == wire::NoticeKind::output) {
        add_output(text);
    } else if (other_bytes_ + text.size() > kOtherRoom || !append(kind, text)) {
        ++lost_others_;
    } else {
        other_bytes_ += text.size();
    }
    waiting_.store(true, std::memory_order_release);
}

// With mutex_ held, as in what follows. False when all sessions together have no more room.
bool Notices::append(wire::NoticeKind kind, std::string_view text) {
    if (!budget_.take(sizeof(Notice) + text.size())) return false;
    queue_.push_back({kind, std::string(text)});
    return true;
}

void Notices::add_output(std::string_view text) {
    const bool joins = !queue_.empty() && queue_.back().kind == wire::NoticeKind::output &&
                       queue_.back().text.size() + text.size() <= kPiece;
    if (joins && budget_.take(text.size())) {
        queue_.back().text += text;
    } else {
        while (!append(wire::NoticeKind::output, text)) {
            if (output_bytes_ == 0) {
                lost_output_ += text.size();
                return;
            }
            drop_oldest_output();
        }
    }
    output_bytes_ += text.size();
    while (output_bytes_ > output_room_) drop_oldest_output();
}

void Notices::drop_oldest_output() {
    const auto oldest = std::find_if(queue_.begin(), queue_.end(), [](const Notice& notice) {
        return notice.kind == wire::NoticeKind::output;
    });
    output_bytes_ -= oldest->text.size();
    lost_output_ += oldest->text.size();
    budget_.give_back(cost(*oldest));
    queue_.erase(oldest);
}

void Notices::set_output_room(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    output_room_ = std::clamp<uint64_t>(bytes, kPiece, kMostOutputRoom);
    while (output_bytes_ > output_room_) drop_oldest_output();
}

void Notices::tell_lost(wire::Writer& reply) {
    if (lost_output_ > 0) {
        put(reply, wire::NoticeKind::lines,
            "device printf: the oldest " + std::to_string(lost_output_) +
                " bytes are lost, because kernels printed more than " + std::to_string(output_room_) +
                " bytes before the program synchronised; synchronise more often, or raise "
                "cudaLimitPrintfFifoSize");
    }
    if (lost_others_ > 0) {
        put(reply, wire::NoticeKind::lines,
            std::to_string(lost_others_) + " more notices of this program's kernels were left out");
    }
    lost_output_ = lost_others_ = 0;
}

void Notices::take(wire::Writer& reply) {
    const std::lock_guard lock(mutex_);
    tell_lost(reply);
    while (!queue_.empty()) {
        const Notice& notice = queue_.front();
        const size_t bytes = notice.text.size();
        if (reply.size() + sizeof(wire::NoticeHead) + bytes > wire::kMaxNotices) break;
        put(reply, notice.kind, notice.text);
        (notice.kind == wire::NoticeKind::output ? output_bytes_ : other_bytes_) -= bytes;
        budget_.give_back(cost(notice));
        queue_.pop_front();
    }
    waiting_.store(!queue_.empty(), std::memory_order_release);
}

}  // namespace worker
