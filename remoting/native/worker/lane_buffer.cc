#include "lane_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace worker {

LaneBuffer::LaneBuffer() {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* got = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    data_ = got == MAP_FAILED ? nullptr : static_cast<std::byte*>(got);
    // Where the system makes huge pages by itself, a lane's first byte would take 2 MiB.
    if (data_) madvise(data_, kBytes, MADV_NOHUGEPAGE);
}

LaneBuffer::~LaneBuffer() {
    if (data_) munmap(data_, kBytes);
}

void LaneBuffer::grow(size_t bytes) {
    used_ += bytes;
    touched_ = std::max(touched_, used_);
}

void LaneBuffer::drop(size_t bytes) {
    if (bytes > 0) std::memmove(data_, data_ + bytes, used_ - bytes);
    used_ -= bytes;
}

void LaneBuffer::release() {
    constexpr size_t kPage = 4096;
    const size_t kept = (used_ + kPage - 1) / kPage * kPage;
    if (kept < kBytes) madvise(data_ + kept, kBytes - kept, MADV_DONTNEED);
    touched_ = used_;
}

}  // namespace worker
