// The worker's command line, as its agent gives it (docs/design.md, "Agent and worker").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "seccomp.h"

namespace worker {

struct Slice {
    uint64_t mib = 0;
    uint64_t context_mib = 0;  // of these, what the worker's context takes
    uint32_t thousandths = 0;
    std::string uuid;
};

struct Options {
    int control_fd = -1;
    int mark_fd = -1;  // the lock that says that this process lives; -1: none
    int file_fd = -1;  // the slice file (docs/design/shared-memory.md); -1: none
    Seccomp seccomp = Seccomp::kRequired;
    std::string driver;
    std::string name;
    std::vector<std::string> libraries;  // folders of NVIDIA's maths libraries
    uint64_t live_until_ms = 0;    // of CLOCK_BOOTTIME; 0: no end
    uint64_t host_memory_mib = 0;  // what this process may take besides the slices (host_memory.h)
    std::vector<Slice> slices;     // the CUDA devices of the lease, in order
};

// False, with a text that says what was read and what is allowed, for anything else.
bool parse_options(int argc, char** argv, Options& options, std::string& error);

}  // namespace worker
