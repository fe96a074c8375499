#include "pool.h"

#include <algorithm>

namespace softgpu::driver {

bool Pool::take(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (max_bytes && bytes > max_bytes - std::min(used_, max_bytes)) return false;
    used_ += bytes;
    used_high_ = std::max(used_high_, used_);
    return true;
}

void Pool::give_back(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
}

uint64_t Pool::attribute(CUmemPool_attribute attribute) const {
    const std::lock_guard lock(mutex_);
    switch (attribute) {
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
            return used_;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            return used_high_;
        default:
            return settings_.at(attribute);
    }
}

void Pool::set(CUmemPool_attribute attribute, uint64_t value) {
    const std::lock_guard lock(mutex_);
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
        used_high_ = used_;
    } else {
        settings_.at(attribute) = value;
    }
}

}  // namespace softgpu::driver
