// Whether this process may share memory with its GPU server on the same host. The person says no with
// GPU_KERNELS_MAP=0: then all is copied, as across hosts.
#pragma once

#include <cstdlib>
#include <string_view>

namespace client {

inline bool may_share() {
    const char* const map = std::getenv("GPU_KERNELS_MAP");
    return !map || std::string_view(map) != "0";
}

}  // namespace client
