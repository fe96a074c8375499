#include "virtual_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "memory.h"
#include "scheduler.h"

namespace softgpu::driver {
namespace {

// Where addresses are reserved when the program has no wish: beside the device's range, and like it far from
// where Linux puts programs and libraries, so that in a forwarded process they do not look like its own
// memory.
constexpr uint64_t kFirst = VirtualMemory::kLowest;
constexpr uint64_t kEnd = 0x2000'0000'0000;
constexpr int kTries = 64;

bool overlaps(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

std::shared_ptr<Physical> Physical::create(Memory& memory, int device, uint64_t bytes) {
    DeviceMemory& space = memory.space(device);
    const uint64_t charge = memory.place_at(device, bytes);
    require(charge != 0, CUDA_ERROR_OUT_OF_MEMORY);
    const int file = memfd_create("gpu-kernels device memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
        if (file >= 0) close(file);
        space.free(charge);
        refuse(CUDA_ERROR_OUT_OF_MEMORY);
    }
    return std::shared_ptr<Physical>(new Physical(space, device, bytes, charge, file));
}

Physical::~Physical() {
    close(file_);
    space_.free(charge_);
}

uint64_t VirtualMemory::retain(HandleTable& handles, const std::shared_ptr<Physical>& physical) {
    const std::lock_guard lock(mutex_);
    if (physical->references_++ == 0) {
        if (physical->handle) {
            handles.put(physical->handle, physical);
        } else {
            handles.add(physical);
        }
    }
    return physical->handle;
}

void VirtualMemory::release(HandleTable& handles, const std::shared_ptr<Physical>& physical) {
    const std::lock_guard lock(mutex_);
    require(physical->references_ > 0);
    if (--physical->references_ == 0) handles.remove(physical->handle);
}

// Addresses for `bytes`, at `wanted` or else further on than last time.
void* VirtualMemory::place(uint64_t bytes, uint64_t wanted) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#ifdef __SANITIZE_THREAD__
    return mmap(nullptr, bytes, PROT_NONE, kFlags, -1, 0);  // it accepts mappings in its own ranges only
#endif
    for (int i = 0; i < kTries; ++i) {
        if (wanted == 0) {
            if (next_ < kFirst || next_ + bytes > kEnd) next_ = kFirst;
            wanted = next_;
            next_ += (bytes + kGranularity - 1) / kGranularity * kGranularity + kGranularity;
        }
        void* hint = reinterpret_cast<void*>(wanted);
        void* found = mmap(hint, bytes, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
        if (found == hint) return found;
        if (found != MAP_FAILED) munmap(found, bytes);
        wanted = 0;
    }
    return MAP_FAILED;
}

uint64_t VirtualMemory::reserve(uint64_t bytes, uint64_t align, uint64_t wanted) {
    align = std::max(align, kGranularity);
    require(align <= kFirst && bytes <= kEnd - kFirst - align, CUDA_ERROR_OUT_OF_MEMORY);
    const std::lock_guard lock(mutex_);
    require(reservations_.size() < kMaxReservations, CUDA_ERROR_OUT_OF_MEMORY);
    // More than wanted where the alignment is larger than what every reservation has.
    const uint64_t more = align > kGranularity ? align : 0;
    const bool heeded = wanted % align == 0 && may_be_here(wanted) && bytes + more <= kHighest - wanted;
    void* found = place(bytes + more, heeded ? wanted : 0);
    require(found != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    const auto start = reinterpret_cast<uint64_t>(found);
    const uint64_t base = (start + align - 1) / align * align;
    if (base > start) munmap(found, base - start);
    if (start + more > base) munmap(reinterpret_cast<void*>(base + bytes), start + more - base);
    reservations_.emplace(base, bytes);
    return base;
}

void VirtualMemory::free(uint64_t base, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = reservations_.find(base);
    require(found != reservations_.end() && found->second == bytes);
    const auto mapped = mappings_.lower_bound(base);
    require(mapped == mappings_.end() || mapped->first >= base + bytes);
    munmap(reinterpret_cast<void*>(base), bytes);
    reservations_.erase(found);
}

void VirtualMemory::map(uint64_t base, uint64_t bytes, const std::shared_ptr<Physical>& physical) {
    require(bytes <= physical->bytes);
    const std::lock_guard lock(mutex_);
    auto after = reservations_.upper_bound(base);
    require(after != reservations_.begin());
    const auto& [start, room] = *std::prev(after);
    require(base - start < room && bytes <= room - (base - start));
    const auto next = mappings_.lower_bound(base);
    require(next == mappings_.end() || !overlaps(base, bytes, next->first, next->second.bytes));
    if (next != mappings_.begin()) {
        const auto& before = *std::prev(next);
        require(!overlaps(base, bytes, before.first, before.second.bytes));
    }
    require(mappings_.size() < kMaxMappings, CUDA_ERROR_OUT_OF_MEMORY);
    void* at = reinterpret_cast<void*>(base);
    const void* mapped =
        mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, physical->file_, 0);
    require(mapped == at, CUDA_ERROR_OUT_OF_MEMORY);
    mappings_.emplace(base, Mapping{bytes, physical, false, bytes});
}

VirtualMemory::Range VirtualMemory::exactly(uint64_t base, uint64_t bytes) {
    require(bytes > 0 && bytes <= UINT64_MAX - base);
    Range range{mappings_.find(base), mappings_.end()};
    uint64_t reached = base;
    auto it = range.first;
    for (; it != mappings_.end() && it->first == reached && reached < base + bytes; ++it) {
        reached += it->second.bytes;
    }
    require(reached == base + bytes && range.first != mappings_.end());
    range.end = it;
    return range;
}

// Work that has looked the memory up may use it until it ends; later work no longer finds it. Without the
// lock while it waits: every look-up takes it, and what is waited for looks up too.
void VirtualMemory::hide(uint64_t base, uint64_t bytes) {
    scheduler_.drain_all();
    {
        const std::lock_guard lock(mutex_);
        const Range range = exactly(base, bytes);
        for (auto it = range.first; it != range.end; ++it) {
            Mapping& mapping = it->second;
            if (mapping.accessible) mapping.physical->space_.unmap_host(reinterpret_cast<void*>(it->first));
            mapping.accessible = false;
        }
    }
    scheduler_.drain_all();
}

void VirtualMemory::unmap(uint64_t base, uint64_t bytes) {
    {
        const std::lock_guard lock(mutex_);
        exactly(base, bytes);
    }
    hide(base, bytes);
    const std::lock_guard lock(mutex_);
    const Range range = exactly(base, bytes);
    // Somebody else may have given access again meanwhile.
    for (auto it = range.first; it != range.end; ++it) require(!it->second.accessible);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    mmap(reinterpret_cast<void*>(base), bytes, PROT_NONE, kFlags, -1, 0);
    mappings_.erase(range.first, range.end);
}

void VirtualMemory::set_access(uint64_t base, uint64_t bytes, int device, bool accessible) {
    std::unique_lock lock(mutex_);
    const Range range = exactly(base, bytes);
    for (auto it = range.first; it != range.end; ++it) {
        require(it->second.physical->device == device, CUDA_ERROR_INVALID_DEVICE);
    }
    if (!accessible) {
        lock.unlock();
        return hide(base, bytes);
    }
    for (auto it = range.first; it != range.end; ++it) {
        if (it->second.accessible) continue;
        DeviceMemory& space = it->second.physical->space_;
        require(space.map_host(reinterpret_cast<void*>(it->first), it->second.reached),
                CUDA_ERROR_OUT_OF_MEMORY);
        it->second.accessible = true;
    }
}

bool VirtualMemory::limit(uint64_t base, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = mappings_.find(base);
    if (found == mappings_.end()) return false;
    if (bytes > 0) found->second.reached = std::min(bytes, found->second.bytes);
    return true;
}

bool VirtualMemory::accessible(uint64_t address, uint64_t bytes) const {
    const std::lock_guard lock(mutex_);
    auto next = mappings_.upper_bound(address);
    if (next == mappings_.begin()) return false;
    auto it = std::prev(next);
    uint64_t offset = address - it->first;
    while (it->second.accessible && offset < it->second.bytes) {
        const uint64_t here = it->second.bytes - offset;
        if (bytes <= here) return true;
        if (next == mappings_.end() || next->first != it->first + it->second.bytes) return false;
        bytes -= here;
        offset = 0;
        it = next++;
    }
    return false;
}

std::optional<VirtualMemory::Mapping> VirtualMemory::find(uint64_t address) const {
    const std::lock_guard lock(mutex_);
    auto after = mappings_.upper_bound(address);
    if (after == mappings_.begin()) return std::nullopt;
    const auto& [base, mapping] = *std::prev(after);
    if (address - base >= mapping.bytes) return std::nullopt;
    return mapping;
}

}  // namespace softgpu::driver
