// What a program has said about ranges of its managed memory (cuMemAdvise, cuMemPrefetchAsync), and can ask
// for again (cuMemRangeGetAttribute). It moves nothing, here or there; the client and the software GPU keep
// and answer it alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

#include "cuda_abi.h"

namespace cuda {

// An allocation of managed memory, or a managed variable.
struct ManagedMemory {
    uint64_t base = 0, bytes = 0;
    uint64_t id = 0;  // another one at the same address has another
};

struct Advice {
    bool read_mostly = false;
    CUmemLocation preferred{CU_MEM_LOCATION_TYPE_INVALID, {0}};
    CUmemLocation prefetched{CU_MEM_LOCATION_TYPE_INVALID, {0}};
    std::set<int> accessed_by{};  // devices, and CU_DEVICE_CPU
};

// Of the forms that name a device, or the host as device -1.
inline CUmemLocation location_of(CUdevice device) {
    if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, {0}};
    return {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
}

inline bool same(const CUmemLocation& one, const CUmemLocation& other) {
    return one.type == other.type && (one.type <= CU_MEM_LOCATION_TYPE_INVALID || one.id == other.id);
}

inline bool is_host(const CUmemLocation& location) {
    return location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

inline CUresult check_location(const CUmemLocation& location, int devices) {
    if (is_host(location)) return CUDA_SUCCESS;
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    return location.id >= 0 && location.id < devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

class ManagedAdvice {
  public:
    // Never destroyed: libraries call while the process exits.
    static ManagedAdvice& get() {
        static auto* advice = new ManagedAdvice;
        return *advice;
    }

    // [address, address + bytes) is part of `memory`, in this and what follows.
    CUresult advise(const ManagedMemory& memory, uint64_t address, uint64_t bytes, CUmem_advise advice,
                    const CUmemLocation& location, int devices) {
        const bool of_place = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                              advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                              advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
        if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
            return CUDA_ERROR_INVALID_VALUE;
        if (of_place) {
            if (CUresult error = check_location(location, devices)) return error;
        }
        change(memory, address, bytes, [&](Advice& known) { take(known, advice, location); });
        return CUDA_SUCCESS;
    }

    CUresult prefetch(const ManagedMemory& memory, uint64_t address, uint64_t bytes,
                      const CUmemLocation& location, int devices) {
        if (CUresult error = check_location(location, devices)) return error;
        change(memory, address, bytes, [&](Advice& known) { known.prefetched = location; });
        return CUDA_SUCCESS;
    }

    CUresult attribute(const ManagedMemory& memory, uint64_t address, uint64_t bytes,
                       CUmem_range_attribute attribute, void* data, size_t size) {
        const Advice all = of_all(memory, address, bytes);
        if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) return put_devices(all.accessed_by, data, size);
        if (!data || size != sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
        int value = 0;
        switch (attribute) {
            case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
                value = all.read_mostly;
                break;
            case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
                value = as_device(all.preferred);
                break;
            case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
                value = as_device(all.prefetched);
                break;
            case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
                value = all.preferred.type;
                break;
            case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
                value = all.preferred.id;
                break;
            case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
                value = all.prefetched.type;
                break;
            case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
                value = all.prefetched.id;
                break;
            default:
                return CUDA_ERROR_INVALID_VALUE;
        }
        std::memcpy(data, &value, sizeof value);
        return CUDA_SUCCESS;
    }

    void forget_all() {
        const std::lock_guard lock(mutex_);
        known_.clear();
    }

    void forget(uint64_t base) {
        const std::lock_guard lock(mutex_);
        known_.erase(base);
    }

  private:
    static constexpr uint64_t kPage = 4096;  // advice is for whole pages

    struct Known {
        uint64_t id = 0;
        std::map<uint64_t, Advice> from;  // up to the next one, or the end of the memory
    };

    static void take(Advice& known, CUmem_advise advice, const CUmemLocation& location) {
        const int device = is_host(location) ? CU_DEVICE_CPU : location.id;
        switch (advice) {
            case CU_MEM_ADVISE_SET_READ_MOSTLY:
            case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
                known.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
                return;
            case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
                known.preferred = location;
                return;
            case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
                known.preferred = Advice{}.preferred;
                return;
            case CU_MEM_ADVISE_SET_ACCESSED_BY:
                known.accessed_by.insert(device);
                return;
            default:
                known.accessed_by.erase(device);
        }
    }

    static int as_device(const CUmemLocation& location) {
        if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return location.id;
        return is_host(location) ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
    }

    static CUresult put_devices(const std::set<int>& devices, void* data, size_t size) {
        if (!data || size == 0 || size % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
        auto next = devices.begin();
        for (size_t at = 0; at < size; at += sizeof(int)) {
            const int device = next == devices.end() ? CU_DEVICE_INVALID : *next++;
            std::memcpy(static_cast<std::byte*>(data) + at, &device, sizeof device);
        }
        return CUDA_SUCCESS;
    }

    // With mutex_ held.
    Known& known(const ManagedMemory& memory) {
        Known& found = known_[memory.base];
        if (found.from.empty() || found.id != memory.id) found = {memory.id, {{memory.base, {}}}};
        return found;
    }

    // The piece that begins at `address`, which is cut off what is before it.
    static std::map<uint64_t, Advice>::iterator cut(Known& known, uint64_t address) {
        const auto before = std::prev(known.from.upper_bound(address));
        return before->first == address ? before : known.from.emplace(address, before->second).first;
    }

    template <typename Change>
    void change(const ManagedMemory& memory, uint64_t address, uint64_t bytes, Change change) {
        const uint64_t begin = std::max(memory.base, address / kPage * kPage);
        const uint64_t end = (address + bytes + kPage - 1) / kPage * kPage;
        const std::lock_guard lock(mutex_);
        Known& all = known(memory);
        const auto first = cut(all, begin);
        const auto last = end < memory.base + memory.bytes ? cut(all, end) : all.from.end();
        for (auto piece = first; piece != last; ++piece) change(piece->second);
    }

    // What holds for every page of the range.
    Advice of_all(const ManagedMemory& memory, uint64_t address, uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto found = known_.find(memory.base);
        if (found == known_.end() || found->second.id != memory.id) return {};
        const auto& pieces = found->second.from;
        auto piece = std::prev(pieces.upper_bound(address));
        Advice all = piece->second;
        for (++piece; piece != pieces.end() && piece->first < address + bytes; ++piece) {
            const Advice& here = piece->second;
            all.read_mostly &= here.read_mostly;
            if (!same(all.preferred, here.preferred)) all.preferred = Advice{}.preferred;
            if (!same(all.prefetched, here.prefetched)) all.prefetched = Advice{}.prefetched;
            std::erase_if(all.accessed_by, [&](int device) { return !here.accessed_by.contains(device); });
        }
        return all;
    }

    std::mutex mutex_;
    std::map<uint64_t, Known> known_;  // by base
};

}  // namespace cuda
