// A process can begin anew on another slice; PyTorch cannot: it keeps what it has of the first one's memory.
#pragma once

namespace gk {

// Throws in words where the process has begun anew since the first call. That one comes when PyTorch has
// just started its device.
void require_first_life();

}  // namespace gk
