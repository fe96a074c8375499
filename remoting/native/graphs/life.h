// The end of all graphs at once: of the forwarding client's, whose session has ended.
#pragma once

#include <functional>
#include <vector>

namespace graphs {

// No graph, node, executable graph, user object or capture is there any more. No call may be under way. What
// is returned are the functions of the program that its user objects end with, to be called when calls may be
// made.
std::vector<std::function<void()>> forget_life();

}  // namespace graphs
