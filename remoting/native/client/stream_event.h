// Streams and events: what the client must know of them to answer without asking.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "cuda_abi.h"
#include "handles.h"

namespace client {

struct Stream {
    uint64_t context = 0;  // id
    uint8_t device = 0;
    unsigned flags = 0;
    int priority = 0;
};

// An event's records are counted. Once the worker has said that record n is complete, it stays so; asking
// again is answered here until the event is recorded again.
struct Event {
    uint64_t context = 0;  // id
    uint8_t device = 0;
    unsigned flags = 0;
    uint64_t recorded = 0;  // counted by __atomic operations
    uint64_t completed = 0;
};

HandleTable<Stream>& streams();
HandleTable<Event>& events();

// The id of the context that a stream belongs to, as call.stream() has put it on the wire.
uint64_t context_of_stream(uint64_t wire);

// Takes what the context owned off the tables; their handles.
std::vector<uint64_t> take_streams_and_events(uint64_t context);

void forget_streams_and_events();
// The default ones of a thread that ends.
void forget_streams_of_thread(uint64_t thread);

// An event is about to be recorded by work that is sent now.
void count_record(CUevent event);

}  // namespace client
