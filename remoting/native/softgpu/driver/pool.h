// Memory pools: accounts of what was allocated in stream order. Memory that is freed goes back to the device
// at once, so a pool reserves exactly what is in use.
#pragma once

#include <mutex>

#include "handles.h"

namespace softgpu::driver {

class Pool : public Object {
  public:
    static constexpr Kind kKind = Kind::pool;
    struct Settings {
        int device = 0;
        uint64_t max_bytes = 0;  // 0: no limit of its own
        CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED;
    };
    explicit Pool(Settings settings) : Object(kKind), settings(settings) {}
    const Settings settings;

    // False when the pool's own limit does not allow it.
    bool take(uint64_t bytes);
    void give_back(uint64_t bytes);

    CUresult get(CUmemPool_attribute attribute, void* value) const;
    CUresult set(CUmemPool_attribute attribute, const void* value);

  private:
    mutable std::mutex mutex_;
    uint64_t used_ = 0, used_high_ = 0, release_threshold_ = 0;
    int reuse_follow_events_ = 1, reuse_opportunistic_ = 1, reuse_internal_dependencies_ = 1;
};

}  // namespace softgpu::driver
