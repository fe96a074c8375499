// cuRAND's generators: what a program has set, and where each stands, in its process.
#pragma once

#include <cuda.h>

#include <mutex>

#include "curand/messages.h"
#include "curand/status.h"
#include "handles.h"

namespace curand {

// A program's threads may use one at once.
struct Generator {
    std::mutex mutex;
    bool on_host = false;  // it makes its numbers here
    CUstream stream = nullptr;
    bool has_run = false;
    uint64_t number = 0;   // never given twice
    uint64_t offsets = 0;  // that were set
    maths::curand::Settings settings{};
    maths::curand::Position position{};
    maths::curand::Twister twister{};
};

libraries::Handles<Generator>& generators();

// Whether something makes random numbers on this GPU; tells the user once where nothing does.
Status look();
// The offset was set, or the generator was made.
void begin_at_offset(Generator& generator);
// As NVIDIA's library does it: where the generator stands in its sequence stays, whatever else is set.
void change_to(Generator& generator, const maths::curand::Settings& settings);
// `count` results from where it stands, here or in its stream; it then stands behind them.
Status generate(Generator& generator, int64_t result, void* output, size_t count, double first,
                double second);
// Gives up what is kept for it where it runs.
void end(Generator& generator);

}  // namespace curand
