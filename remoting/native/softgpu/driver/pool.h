// Memory pools: accounts of what was allocated in stream order. Memory that is freed goes back to the device
// at once, so a pool reserves exactly what is in use.
#pragma once

#include <map>
#include <mutex>

#include "handles.h"

namespace softgpu::driver {

class Pool : public Object {
  public:
    static constexpr Kind kKind = Kind::pool;
    Pool(int device, uint64_t max_bytes) : Object(kKind), device(device), max_bytes(max_bytes) {}
    const int device;
    const uint64_t max_bytes;  // 0: no limit of its own

    // False when the pool's own limit does not allow it.
    bool take(uint64_t bytes);
    void give_back(uint64_t bytes);

    uint64_t attribute(CUmemPool_attribute attribute) const;
    void set(CUmemPool_attribute attribute, uint64_t value);

  private:
    mutable std::mutex mutex_;
    uint64_t used_ = 0, used_high_ = 0;
    // How its memory may be used again, kept for who asks: none is kept back.
    std::map<CUmemPool_attribute, uint64_t> settings_{{CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1},
                                                      {CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1},
                                                      {CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1},
                                                      {CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0}};
};

}  // namespace softgpu::driver
