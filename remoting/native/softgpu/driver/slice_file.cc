#include "slice_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace softgpu::driver {
namespace {

constexpr int kAccess = PROT_READ | PROT_WRITE;

uint64_t whole_pages(uint64_t bytes) {
    return (bytes + SliceFile::kPage - 1) / SliceFile::kPage * SliceFile::kPage;
}

bool put_own(uint64_t base, uint64_t bytes) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap(reinterpret_cast<void*>(base), bytes, kAccess, kFlags, -1, 0) != MAP_FAILED;
}

}  // namespace

SliceFile::SliceFile(int descriptor, uint64_t bytes) : descriptor_(descriptor) {
    if (const uint64_t whole = bytes / kPage * kPage) free_.give(0, whole);
}

bool SliceFile::empty(uint64_t place, uint64_t bytes) const {
    return fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(place),
                     static_cast<off_t>(bytes)) == 0;
}

std::optional<uint64_t> SliceFile::take(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (places_ == kMostPlaces) return std::nullopt;
    const auto place = free_.take(0, bytes, kPage);
    if (!place) return std::nullopt;
    // Somebody may have written there while it was free.
    if (!empty(*place, bytes)) {
        free_.give(*place, bytes);
        return std::nullopt;
    }
    taken_ += bytes;
    ++places_;
    return place;
}

void SliceFile::give_back(uint64_t place, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    empty(place, bytes);
    free_.give(place, bytes);
    taken_ -= bytes;
    --places_;
}

std::optional<uint64_t> SliceFile::lay(uint64_t base, uint64_t bytes) {
    constexpr int kFlags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
    bytes = whole_pages(bytes);
    const auto place = take(bytes);
    if (!place) return std::nullopt;
    void* const at = reinterpret_cast<void*>(base);
    if (mmap(at, bytes, kAccess, kFlags, descriptor_, static_cast<off_t>(*place)) != MAP_FAILED) return place;
    give_back(*place, bytes);
    put_own(base, bytes);  // what was there may have gone
    return std::nullopt;
}

bool SliceFile::lift(uint64_t base, uint64_t bytes, uint64_t place) {
    bytes = whole_pages(bytes);
    if (!put_own(base, bytes)) return false;
    give_back(place, bytes);
    return true;
}

void SliceFile::sweep() {
    constexpr uint64_t kBlock = 512;  // of st_blocks, whatever the file system
    const std::lock_guard lock(mutex_);
    struct stat now{};
    const bool more = fstat(descriptor_, &now) == 0 && static_cast<uint64_t>(now.st_blocks) * kBlock > taken();
    if (more) free_.each([this](uint64_t place, uint64_t bytes) { empty(place, bytes); });
}

}  // namespace softgpu::driver
