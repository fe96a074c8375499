#include "slice_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>

#include "protocol.h"
#include "session.h"
#include "sharing.h"

namespace client {
namespace {

constexpr uint64_t kPage = wire::kFilePage;
// Where software GPUs have their memory, and neither programs nor libraries lie.
constexpr uint64_t kLowest = 0x1000'0000'0000, kEnd = 0x3000'0000'0000;

uint64_t whole_pages(uint64_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

// How long the file is; 0 unless it is memory of this machine that nobody makes shorter under a mapping.
uint64_t sealed_bytes(int file) {
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct statfs system{};
    struct stat facts{};
    const int seals = fcntl(file, F_GET_SEALS);
    if (seals < 0 || (seals & kSeals) != kSeals) return 0;
    if (fstatfs(file, &system) != 0 || system.f_type != TMPFS_MAGIC || fstat(file, &facts) != 0) return 0;
    return static_cast<uint64_t>(facts.st_size);
}

void* at(uint64_t address) {
    return reinterpret_cast<void*>(address);
}

}  // namespace

SliceFile& SliceFile::get() {
    static auto* file = new SliceFile;
    return *file;
}

bool SliceFile::wants(uint64_t bytes) {
    return bytes >= kLeast && wanted_.load(std::memory_order_acquire) && is_open();
}

bool SliceFile::is_open() {
    if (state_.load(std::memory_order_acquire) == State::unknown) open();
    return state_.load(std::memory_order_acquire) == State::open;
}

void SliceFile::open() {
    const std::unique_lock lock(mutex_);
    if (state_.load() != State::unknown) return;
    const int file = may_share() ? Session::get().open_slice_file() : -1;
    bytes_ = file >= 0 ? sealed_bytes(file) : 0;
    file_ = file;
    if (bytes_ == 0 && file >= 0) {
        close(file);
        file_ = -1;
    }
    state_.store(bytes_ ? State::open : State::none, std::memory_order_release);
}

bool SliceFile::map(uint64_t address, uint64_t bytes, uint64_t place, AtEnd at_end) {
    constexpr int kFlags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    const std::unique_lock lock(mutex_);
    if (file_ < 0 || bytes == 0 || bytes > bytes_ || address % kPage || place % kPage) return false;
    const uint64_t whole = whole_pages(bytes);
    if (place > bytes_ || whole > bytes_ - place) return false;
    if (address < kLowest || address > kEnd || whole > kEnd - address) return false;
    void* const found =
        mmap(at(address), whole, PROT_READ | PROT_WRITE, kFlags, file_, static_cast<off_t>(place));
    if (found == MAP_FAILED) {
        forget(address, whole);
        return false;
    }
    // A kernel that does not know MAP_FIXED_NOREPLACE.
    if (found != at(address) || madvise(found, whole, MADV_DONTFORK) != 0) {
        munmap(found, whole);
        return false;
    }
    mapped_[address] = {whole, place, at_end};
    return true;
}

bool SliceFile::unmap(uint64_t address) {
    const std::unique_lock lock(mutex_);
    uint64_t bytes = 0;
    if (const auto found = mapped_.find(address); found != mapped_.end()) {
        bytes = found->second.bytes;
        mapped_.erase(found);
    } else if (const auto left = left_.find(address); left != left_.end()) {
        bytes = left->second;
        left_.erase(left);
    }
    return bytes > 0 && munmap(at(address), bytes) == 0;
}

bool SliceFile::holds(uint64_t address, uint64_t bytes) const {
    const std::shared_lock lock(mutex_);
    auto after = mapped_.upper_bound(address);
    if (after == mapped_.begin()) return false;
    const auto& [base, mapping] = *std::prev(after);
    return address - base < mapping.bytes && bytes <= mapping.bytes - (address - base);
}

bool SliceFile::keeps_any() const {
    const std::shared_lock lock(mutex_);
    return std::any_of(mapped_.begin(), mapped_.end(),
                       [](const auto& each) { return each.second.at_end == AtEnd::kept; });
}

void SliceFile::forget(uint64_t address, uint64_t bytes) {
    for (auto it = mapped_.begin(); it != mapped_.end();) {
        const auto [base, whole] = std::pair(it->first, it->second.bytes);
        const bool overlaps = base < address + bytes && address < base + whole;
        if (overlaps) left_[base] = whole;
        it = overlaps ? mapped_.erase(it) : std::next(it);
    }
}

// Made elsewhere and then moved there, so that whoever works there finds memory all the time. Where the
// kernel has no room for it, the slice's memory stays, which is nobody's from now on.
void SliceFile::leave(uint64_t address, const Mapping& mapping) const {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const made = mmap(nullptr, mapping.bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (made == MAP_FAILED) return;
    const auto end = static_cast<off_t>(mapping.place + mapping.bytes);
    auto hole = static_cast<off_t>(mapping.at_end == AtEnd::kept ? mapping.place : end);
    while (hole < end) {
        const off_t data = lseek(file_, hole, SEEK_DATA);
        if (data < 0 || data >= end) break;
        hole = std::min(lseek(file_, data, SEEK_HOLE), end);
        const uint64_t from = static_cast<uint64_t>(data) - mapping.place;
        std::memcpy(static_cast<std::byte*>(made) + from, at(address + from),
                    static_cast<size_t>(hole - data));
    }
    if (mremap(made, mapping.bytes, mapping.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at(address)) == MAP_FAILED)
        munmap(made, mapping.bytes);
}

void SliceFile::end_life() {
    const std::unique_lock lock(mutex_);
    for (const auto& [base, mapping] : mapped_) {
        leave(base, mapping);
        left_[base] = mapping.bytes;
    }
    mapped_.clear();
    if (file_ >= 0) close(file_);
    file_ = -1;
    bytes_ = 0;
    state_.store(State::unknown, std::memory_order_release);
}

// No lock: another thread of the parent may have held it.
void SliceFile::forget_after_fork() {
    if (file_ >= 0) close(file_);
    file_ = -1;
    state_.store(State::none);
}

}  // namespace client
