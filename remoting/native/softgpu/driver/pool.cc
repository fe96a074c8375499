#include "pool.h"

#include <algorithm>
#include <cstring>

namespace softgpu::driver {
namespace {

template <class T>
CUresult put(void* value, T content) {
    std::memcpy(value, &content, sizeof content);
    return CUDA_SUCCESS;
}

template <class T>
CUresult take_from(const void* value, T& content) {
    std::memcpy(&content, value, sizeof content);
    return CUDA_SUCCESS;
}

}  // namespace

bool Pool::take(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (settings.max_bytes && bytes > settings.max_bytes - std::min(used_, settings.max_bytes)) return false;
    used_ += bytes;
    used_high_ = std::max(used_high_, used_);
    return true;
}

void Pool::give_back(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
}

CUresult Pool::get(CUmemPool_attribute attribute, void* value) const {
    const std::lock_guard lock(mutex_);
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
            return put(value, reuse_follow_events_);
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
            return put(value, reuse_opportunistic_);
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
            return put(value, reuse_internal_dependencies_);
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            return put(value, release_threshold_);
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
            return put(value, used_);
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            return put(value, used_high_);
        case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
            return put(value, static_cast<int>(settings.type));
        case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
            return put(value, static_cast<int>(CU_MEM_HANDLE_TYPE_NONE));
        case CU_MEMPOOL_ATTR_LOCATION_ID:
            return put(value, settings.device);
        case CU_MEMPOOL_ATTR_LOCATION_TYPE:
            return put(value, static_cast<int>(CU_MEM_LOCATION_TYPE_DEVICE));
        case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
            return put(value, settings.max_bytes);
        case CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED:
            return put(value, 0);
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult Pool::set(CUmemPool_attribute attribute, const void* value) {
    const std::lock_guard lock(mutex_);
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
            return take_from(value, reuse_follow_events_);
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
            return take_from(value, reuse_opportunistic_);
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
            return take_from(value, reuse_internal_dependencies_);
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            return take_from(value, release_threshold_);
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH: {
            // CUDA allows resetting the high-water marks to zero only: they start again from what is in use.
            uint64_t zero = 0;
            take_from(value, zero);
            if (zero != 0) return CUDA_ERROR_INVALID_VALUE;
            used_high_ = used_;
            return CUDA_SUCCESS;
        }
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace softgpu::driver
