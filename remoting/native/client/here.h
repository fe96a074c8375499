// The slice's memory as this process's processor has it: what a library in this process may use beyond CUDA,
// as PyTorch's native part does. Found with dlsym; errors are CUresult.
#pragma once

#include <stddef.h>

#include "cuda_abi.h"
#include "traffic.h"

#define GK_EXPORTED __attribute__((visibility("default")))

extern "C" {

// From now on memory of cuMemAlloc is mapped in this process, at its device address, where the worker is on
// this host and runs a software GPU. Elsewhere nothing changes.
GK_EXPORTED void gkMapMemory(void);

// 1 where the processor may read and write all of [address, address + bytes), until the memory is freed or
// the life ends; else 0. What CUDA has under way there is waited for with gkWaitInStream.
GK_EXPORTED int gkIsMapped(unsigned long long address, size_t bytes);

// Returns when all has run that an operation of the stream would come after; without asking the worker where
// nothing can be under way. Errors are those of cuStreamSynchronize.
GK_EXPORTED int gkWaitInStream(CUstream stream);

// Of this process since its start.
GK_EXPORTED void gkTraffic(struct GkTraffic* traffic);
}
