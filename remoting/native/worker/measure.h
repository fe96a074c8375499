// gpu-worker --measure-context: what a worker takes of a GPU before its program has asked for anything.
#pragma once

namespace worker {

// `--driver PATH --uuid U[,U...]`. Prints {"context_mib": [N, ...]}, an entry for each GPU in their order,
// rounded up. The exit status; what went wrong is logged. For an agent at its start, while nothing else comes
// and goes on the GPUs.
int measure_context(int argc, char** argv);

}  // namespace worker
