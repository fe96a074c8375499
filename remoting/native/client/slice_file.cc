#include "slice_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <mutex>

#include "protocol.h"
#include "session.h"

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
    if (bytes < kLeast || !wanted_.load(std::memory_order_acquire)) return false;
    if (state_.load(std::memory_order_acquire) == State::unknown) open();
    return state_.load(std::memory_order_acquire) == State::open;
}

void SliceFile::open() {
    const std::unique_lock lock(mutex_);
    if (state_.load() != State::unknown) return;
    const int file = Session::get().open_slice_file();
    bytes_ = file >= 0 ? sealed_bytes(file) : 0;
    file_ = file;
    if (bytes_ == 0 && file >= 0) {
        close(file);
        file_ = -1;
    }
    state_.store(bytes_ ? State::open : State::none, std::memory_order_release);
}

bool SliceFile::map(uint64_t address, uint64_t bytes, uint64_t place) {
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
    mapped_[address] = whole;
    return true;
}

void SliceFile::unmap(uint64_t address) {
    const std::unique_lock lock(mutex_);
    for (auto* known : {&mapped_, &left_}) {
        const auto found = known->find(address);
        if (found == known->end()) continue;
        munmap(at(address), found->second);
        known->erase(found);
        return;
    }
}

bool SliceFile::holds(uint64_t address, uint64_t bytes) const {
    const std::shared_lock lock(mutex_);
    auto after = mapped_.upper_bound(address);
    if (after == mapped_.begin()) return false;
    const auto& [base, whole] = *std::prev(after);
    return address - base < whole && bytes <= whole - (address - base);
}

void SliceFile::forget(uint64_t address, uint64_t bytes) {
    for (auto it = mapped_.begin(); it != mapped_.end();) {
        const auto [base, whole] = *it;
        const bool overlaps = base < address + bytes && address < base + whole;
        if (overlaps) left_[base] = whole;
        it = overlaps ? mapped_.erase(it) : std::next(it);
    }
}

void SliceFile::end_life() {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    const std::unique_lock lock(mutex_);
    for (const auto& [base, whole] : mapped_) {
        // Where the kernel has no room for that, the slice's memory stays, which is nobody's from now on.
        mmap(at(base), whole, PROT_READ | PROT_WRITE, kFlags, -1, 0);
        left_[base] = whole;
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
