// JIT options of a load or a link on the wire: numbers go to the worker, logs come back.
#pragma once

#include <vector>

#include "front/jit_options.h"
#include "payload.h"
#include "protocol.h"

namespace client {

std::vector<wire::JitOption> to_wire(const front::JitOptions& options);
// What the worker is asked for.
uint32_t room_of(const front::JitLog& log);
// Takes both logs off the reply and tells them. False when the reply is not well formed.
bool tell_logs(const front::JitOptions& options, wire::Reader& reply, uint32_t info_bytes,
               uint32_t error_bytes);

}  // namespace client
