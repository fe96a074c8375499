// The system calls that this process may make once it serves a client (seccomp.cc has the argument).
#pragma once

#include <string>

namespace worker {

// What to do about a kernel without seccomp: --seccomp, from the agent's setting `worker_seccomp`.
enum class Seccomp { kRequired, kOptional, kOff };

// Takes every capability away for good, from the bounding set too, where the process may.
void drop_capabilities();

// Filters the system calls of all threads of this process, those that run and those to come, from now on.
// False, with the reason in `error`, where the kernel does not take the filter: nothing is filtered then.
bool filter_system_calls(std::string& error);

}  // namespace worker
