// The slice file (docs/design/shared-memory.md): memory that another process may map, and so may write at any
// time. Whoever made it has sealed its size, which bounds what it can hold.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "exec/ranges.h"

namespace softgpu::driver {

class SliceFile {
  public:
    static constexpr uint64_t kPage = 4096;
    // So many places at a time: each is a mapping of the process, of which the kernel allows some 65,000.
    static constexpr unsigned kMostPlaces = 4096;

    // Owns nothing: `descriptor` stays open as long as the process.
    SliceFile(int descriptor, uint64_t bytes);

    // Puts pages of the file at `base`, in the place of memory of this process; `bytes` rounded up to whole
    // ones, which are empty. Where they lie in the file; nothing when there is no room in one piece.
    std::optional<uint64_t> lay(uint64_t base, uint64_t bytes);
    // Puts empty memory of the process there again; the pages go back to the host. False where the kernel
    // does not allow it: then neither base nor place may be used again.
    bool lift(uint64_t base, uint64_t bytes, uint64_t place);
    // Where the file holds more than is taken, somebody has written to what is free: that goes back to the
    // host.
    void sweep();
    uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }

  private:
    std::optional<uint64_t> take(uint64_t bytes);
    void give_back(uint64_t place, uint64_t bytes);
    bool empty(uint64_t place, uint64_t bytes) const;

    const int descriptor_;
    std::mutex mutex_;  // of what follows
    Ranges free_;
    std::atomic<uint64_t> taken_{0};  // read without it
    unsigned places_ = 0;
};

}  // namespace softgpu::driver
