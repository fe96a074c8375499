// User objects: what a program ties to the life of its graphs. They are the client's alone, because what they
// keep alive is in this process.
#pragma once

#include <cstdint>

namespace client {

// An executable graph holds what its graph holds.
void copy_user_objects(uint64_t from_graph, uint64_t to_exec);
// The graph or executable graph has gone: its references are given back, and the last one calls the program.
void drop_user_objects(uint64_t graph);

}  // namespace client
