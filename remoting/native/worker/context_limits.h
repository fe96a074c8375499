// Stack, printf buffer and heap of kernels, and how many kernels they may launch: limits of a context, and so
// of all sessions of the lease, since they share one context a GPU. Each session says what it needs; the
// context has the largest of that, so that none has less than it asked for. What the driver takes for more
// than it has to begin with is taken from the slice.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "cuda_abi.h"

namespace worker {

struct Worker;
class Session;

class ContextLimits {
  public:
    // The calling thread's context is that of `device`. OUT_OF_MEMORY when the slice has no room for it.
    CUresult set(Worker& worker, const Session* owner, uint8_t device, CUlimit limit, uint64_t value);
    // The session needs nothing any more.
    void forget(Worker& worker, const Session* owner, uint8_t device);

  private:
    struct Limit {
        uint64_t charged = 0;
        std::map<const Session*, uint64_t> needs{};
    };
    CUresult apply(Worker& worker, uint8_t device, CUlimit limit, Limit& state);

    std::mutex mutex_;
    std::map<std::pair<uint8_t, CUlimit>, Limit> limits_;
};

}  // namespace worker
