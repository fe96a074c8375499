#include "lane.h"

#include <algorithm>
#include <cstring>

namespace client {

Lane::Lane(std::unique_ptr<wire::Transport> transport, int fd)
    : transport_(std::move(transport)),
      fd_(fd),
      filling_(new std::byte[kBuffer]),
      spare_(new std::byte[kBuffer]),
      reply_(sizeof(wire::ReplyHeader) + 4096) {}

void Lane::append(const iovec* parts, int count, size_t bytes) {
    size_t at = fill_.load(std::memory_order_relaxed);
    for (int i = 0; i < count; ++i) {
        std::memcpy(filling_.get() + at, parts[i].iov_base, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    fill_.store(at, std::memory_order_seq_cst);
}

bool Lane::post(const iovec* parts, int count, size_t bytes) {
    quiet = false;
    if (bytes > kCopied) return send_now(parts, count);
    {
        const std::lock_guard lock(buffer_lock_);
        if (fill_.load(std::memory_order_relaxed) + bytes <= kBuffer) {
            append(parts, count, bytes);
            return true;
        }
    }
    if (!flush(true)) return false;
    const std::lock_guard lock(buffer_lock_);  // only this thread appends: there is room now
    append(parts, count, bytes);
    return true;
}

bool Lane::flush(bool wait) {
    if (wait) {
        sending_.lock();
    } else if (!sending_.try_lock()) {
        return true;
    }
    const std::lock_guard lock(sending_, std::adopt_lock);
    return send_locked(nullptr, 0);
}

bool Lane::send_now(const iovec* parts, int count) {
    const std::lock_guard lock(sending_);
    return send_locked(parts, count);
}

bool Lane::send_locked(const iovec* parts, int count) {
    size_t bytes;
    {
        const std::lock_guard lock(buffer_lock_);
        bytes = fill_.load(std::memory_order_relaxed);
        std::swap(filling_, spare_);
        fill_.store(0, std::memory_order_seq_cst);
    }
    iovec all[8];
    int used = 0;
    if (bytes > 0) all[used++] = {spare_.get(), bytes};
    for (int i = 0; i < count; ++i) all[used++] = parts[i];
    return used == 0 || transport_->send(all, used);
}

void Lane::take_flags(wire::ReplyHeader& header) {
    notices_wait = header.length & wire::kNoticesWait;
    context_goes_on = header.length & wire::kContextGoesOn;
    quiet = true;
    header.length &= wire::kReplyLength;
}

// Into `buffer`, header and all.
bool Lane::receive_to(wire::ReplyHeader& header, std::vector<std::byte>& buffer) {
    // A client has one asked call under way: what is readable is this reply and nothing else.
    iovec first{buffer.data(), buffer.size()};
    size_t have = transport_->receive(&first, 1, sizeof header);
    if (have < sizeof header) return false;
    std::memcpy(&header, buffer.data(), sizeof header);
    take_flags(header);
    if (header.length > wire::kMaxReply) return false;
    const size_t need = sizeof header + header.length;
    if (have > need) return false;
    if (need > buffer.size()) buffer.resize(need);
    if (have == need) return true;
    iovec rest{buffer.data() + have, need - have};
    return transport_->receive(&rest, 1, need - have) == need - have;
}

bool Lane::receive(wire::ReplyHeader& header, std::span<const std::byte>& payload) {
    if (!receive_to(header, reply_)) return false;
    payload = std::span(reply_).subspan(sizeof header, header.length);
    return true;
}

bool Lane::receive_notices(std::vector<std::byte>& notices) {
    wire::ReplyHeader header{};
    notices.resize(sizeof header + 4096);
    if (!receive_to(header, notices)) return false;
    notices.resize(sizeof header + header.length);
    notices.erase(notices.begin(), notices.begin() + sizeof header);
    return true;
}

bool Lane::receive_into(wire::ReplyHeader& header, void* to, size_t bytes) {
    iovec parts[2] = {{&header, sizeof header}, {to, bytes}};
    const size_t have = transport_->receive(parts, 2, sizeof header);
    if (have < sizeof header) return false;
    take_flags(header);
    if (header.status != 0) return header.length == 0 && have == sizeof header;
    if (header.length != bytes) return false;
    const size_t rest = sizeof header + bytes - have;
    if (rest == 0) return true;
    iovec tail{static_cast<std::byte*>(to) + (bytes - rest), rest};
    return transport_->receive(&tail, 1, rest) == rest;
}

bool Lane::receive_one_into(wire::ReplyHeader& header, void* to, size_t bytes) {
    iovec head{&header, sizeof header};
    if (transport_->receive(&head, 1, sizeof header) != sizeof header) return false;
    take_flags(header);
    if (header.status != 0) return header.length == 0;
    if (header.length != bytes) return false;
    iovec payload{to, bytes};
    return bytes == 0 || transport_->receive(&payload, 1, bytes) == bytes;
}

bool Lane::receive_welcome(std::vector<std::byte>& welcome, std::string& error, bool& gone) {
    wire::ReplyHeader header{};
    std::span<const std::byte> payload;
    gone = !receive(header, payload);
    if (gone) {
        error = "the GPU server closed the connection, or says nothing";
        return false;
    }
    if (header.status != 0) {
        error.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
        return false;
    }
    welcome.assign(payload.begin(), payload.end());
    return true;
}

}  // namespace client
