// What the driver keeps for each thread of the program: its stack of contexts and its default streams.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace softgpu::driver {

class Session;
class Stream;

struct ThreadState {
    std::vector<uint64_t> contexts;                               // handles; the last is current
    std::map<uint64_t, std::shared_ptr<Stream>> default_streams;  // by the id of the context
    std::shared_ptr<Session> session;  // whose work the thread's is; null: the process's own
    bool keeps_news = false;           // what it waits for takes nothing that is the session's to be told
    bool per_thread_default = false;   // stream 0 means the thread's own: inside a _ptsz or _ptds entry point
};

// The calling thread's. Also works while the process exits, after the thread's C++ locals are gone.
ThreadState& thread_state();

}  // namespace softgpu::driver
