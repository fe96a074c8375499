// Graphs that were captured from streams, and what they were made into.
#pragma once

#include <cstdint>

#include "cuda_abi.h"
#include "handles.h"

namespace client {

struct Graph {
    uint8_t device = 0;
};

HandleTable<Graph>& graphs();
HandleTable<Graph>& execs();

// After the device's context has ended.
void forget_graphs(uint8_t device);

}  // namespace client
