// What the client library says: to the user on standard error, to the log where GPU_KERNELS_LOG says.
#pragma once

#include <string_view>

namespace client {

// One line on standard error, "gpu-kernels: TEXT", and in the log. For what a user must see and can act on.
void tell_user(std::string_view text);

// One line in the log (`stderr`, or a file that is appended to); nothing when GPU_KERNELS_LOG is unset.
void log_line(std::string_view text);

}  // namespace client
