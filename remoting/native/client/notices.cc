#include "notices.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_abi.h"
#include "lane.h"
#include "log.h"
#include "payload.h"
#include "softgpu/driver/checks.h"

namespace client {
namespace {

void tell_lines(std::string_view text) {
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        if (end > 0) tell_user(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

void tell_one(wire::NoticeKind kind, std::string_view text) {
    if (kind == wire::NoticeKind::output) {
        std::fwrite(text.data(), 1, text.size(), stdout);
    } else if (kind == wire::NoticeKind::error) {
        std::fwrite(text.data(), 1, text.size(), stderr);
    } else {
        tell_lines(text);
    }
}

}  // namespace

Notices& Notices::get() {
    static auto* only = new Notices;
    return *only;
}

bool Notices::tell(Lane& lane) {
    if (lane.notices_wait) {
        telling_.fetch_add(1);
        const std::lock_guard lock(mutex_);
        const bool whole = take_and_tell(lane);
        telling_.fetch_sub(1);
        return whole;
    }
    if (telling_.load() > 0) const std::lock_guard lock(mutex_);
    return true;
}

bool Notices::take_and_tell(Lane& lane) {
    const wire::FrameHeader head{0, wire::kOpTakeNotices, 0, 0, 0};
    while (lane.notices_wait) {
        const iovec part{const_cast<wire::FrameHeader*>(&head), sizeof head};
        std::vector<std::byte> notices;
        if (!lane.send_now(&part, 1) || !lane.receive_notices(notices)) return false;
        wire::Reader reader(notices);
        wire::NoticeHead notice{};
        std::string_view text;
        while (reader.take(notice) && reader.take_text(notice.bytes, text)) {
            tell_one(static_cast<wire::NoticeKind>(notice.kind), text);
        }
    }
    // Through the C library's buffer, so that the order with what the program itself writes there is kept;
    // and out of it, as CUDA does when it synchronises.
    std::fflush(stdout);
    return true;
}

bool ask_for_checks(Lane& lane) {
    const char* wish = getenv(kGkCheckVariable);
    if (!wish || !*wish) return true;
    wire::ChecksMessage message{};
    if (!parse_checks(wish, message.checks)) {
        tell_user(std::string(kGkCheckVariable) + "=" + wish + ": " + kGkCheckNames);
    }
    if (message.checks == 0) return true;
    wire::FrameHeader head{sizeof message, wire::kOpSetChecks, 0, 0, 0};
    const iovec parts[2] = {{&head, sizeof head}, {&message, sizeof message}};
    wire::ReplyHeader reply{};
    std::span<const std::byte> payload;
    if (!lane.send_now(parts, 2) || !lane.receive(reply, payload)) return false;
    if (reply.status != CUDA_SUCCESS) {
        tell_user(std::string(kGkCheckVariable) +
                  " is set, but this GPU is no software GPU and cannot check: kernels run unchecked. "
                  "Choose a kernel on a software GPU to look for races.");
    }
    return true;
}

}  // namespace client
