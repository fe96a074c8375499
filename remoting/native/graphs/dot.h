// A graph as a picture's source, for people who look for a mistake in it.
#pragma once

#include "graph.h"

namespace graphs {

// `flags` as for cuGraphDebugDotPrint. Throws OPERATING_SYSTEM when the file cannot be written.
void write_dot(const Graph& graph, const char* path, unsigned flags);

}  // namespace graphs
