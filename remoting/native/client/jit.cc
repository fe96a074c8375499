#include "jit.h"

#include <algorithm>

namespace client {

static_assert(front::JitOptions::kMost <= wire::kMaxJitOptions);

std::vector<wire::JitOption> to_wire(const front::JitOptions& options) {
    std::vector<wire::JitOption> sent;
    for (const auto& number : options.numbers)
        sent.push_back({static_cast<uint32_t>(number.option), 0, number.value});
    return sent;
}

uint32_t room_of(const front::JitLog& log) {
    return std::min(log.room, wire::kMaxLogBytes);
}

bool tell_logs(const front::JitOptions& options, wire::Reader& reply, uint32_t info_bytes,
               uint32_t error_bytes) {
    std::string_view info, error;
    if (!reply.take_text(info_bytes, info) || !reply.take_text(error_bytes, error)) return false;
    options.info.tell(info);
    options.error.tell(error);
    return true;
}

}  // namespace client
