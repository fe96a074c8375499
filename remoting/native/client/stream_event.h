// Streams and events: what the client must know of them to answer without asking.
#pragma once

#include <atomic>
#include <cstdint>

#include "handles.h"

namespace client {

struct Stream {
    uint8_t device = 0;
    unsigned flags = 0;
    int priority = 0;
};

// An event's records are counted. Once the worker has said that record n is complete, it stays so; asking
// again is answered here until the event is recorded again.
struct Event {
    uint8_t device = 0;
    unsigned flags = 0;
    uint64_t recorded = 0;  // by __atomic operations: a slot's value must be assignable
    uint64_t completed = 0;
};

HandleTable<Stream>& streams();
HandleTable<Event>& events();

// After the device's context has ended.
void forget_streams_and_events(uint8_t device);

}  // namespace client
