// Device memory within one launch: who accessed each unit of it, and what the blocks know of each other.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/check/budget.h"
#include "exec/check/order.h"

namespace softgpu::check {

// Which blocks' accesses are over, as far as atomics and fences say it. A block's time is cut by its fences;
// what one thread acquires, its block knows: what a block's threads know of each other is Order's business.
using KnownBlocks = std::vector<std::pair<uint32_t, uint32_t>>;  // block and its time, sorted
using KnownBlocksPtr = std::shared_ptr<const KnownBlocks>;

class LeftByBlocks;

class BlockKnowledge {
  public:
    void reset(uint32_t number, uint32_t threads);
    uint32_t number() const { return number_; }
    uint32_t time() const { return time_; }
    bool knows(uint32_t block, uint32_t time) const;
    // That it has read what the block wrote after that time, if without a fence. Enough to write where the
    // block has read: nobody goes on before what he waits for is there.
    bool has_heard(uint32_t block, uint32_t time) const;

    // Hears again what stood at the address that the thread has looked at last. The look is noted before the
    // instruction, and what it found may have been left between the two: so this comes before whatever the
    // thread does next.
    void settle(uint32_t thread);
    void fence(uint32_t thread);
    // Fences before a barrier count for all who come to it.
    void barrier(uint32_t first_thread, uint32_t lanes);

  private:
    friend class LeftByBlocks;
    uint32_t number_ = 0, time_ = 1, before_barrier_ = 0;
    KnownBlocksPtr known_, heard_;
    std::vector<uint32_t> fences_;         // by thread: the block's time then, 0 for none
    std::vector<KnownBlocksPtr> pending_;  // by thread: read without a fence since
    struct Look {
        LeftByBlocks* at = nullptr;
        uint64_t address = 0;
        uint32_t access = 0;
    };
    std::vector<Look> looks_;  // by thread: the last one, until it is settled
};

// What blocks have left at addresses. Bounded; beyond it, blocks count as ordered.
class LeftByBlocks {
  public:
    void read(BlockKnowledge& block, uint64_t address, uint32_t thread, uint32_t access);
    void wrote(BlockKnowledge& block, uint64_t address, uint32_t thread, uint32_t access);
    bool lost() const { return lost_.load(std::memory_order_relaxed); }
    bool asked() const { return asked_.load(std::memory_order_relaxed); }  // the kernel has atomics or flags

  private:
    friend class BlockKnowledge;
    void hear(BlockKnowledge& block, uint64_t address, uint32_t thread, uint32_t access);
    static constexpr size_t kMostAddresses = 4096, kMostEntries = 1u << 18;
    std::mutex mutex_;
    using Left = std::unordered_map<uint64_t, KnownBlocksPtr>;
    void leave(Left& left, uint64_t address, const KnownBlocksPtr& known, uint32_t block, uint32_t time);
    Left left_, said_;  // with fences, and without
    size_t entries_ = 0;
    std::atomic<bool> lost_{false};
    std::atomic<bool> any_{false}, asked_{false};
};

// The last writer and one reader of each unit. Pages of cells are made where memory is touched, up to a
// bound.
class DeviceAccesses {
  public:
    struct Access {
        uint32_t op = 0;  // its index in the image, plus 1; 0: nobody
        uint32_t block = 0, block_time = 0;
        uint32_t warp_time = 0, epoch = 0;
        uint16_t thread = 0;
        uint8_t flags = 0, group = 0;
    };
    struct Cell {
        Access writer, reader;
    };
    static constexpr uint32_t kPageCells = 1024;
    struct Page {
        std::mutex mutex;
        Cell cells[kPageCells];
        Room room;
    };

    // Null when there is no room for it.
    Page* page(uint64_t number);
    bool full() const { return full_.load(std::memory_order_relaxed); }

  private:
    std::mutex mutex_;
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
    std::atomic<bool> full_{false};
};

}  // namespace softgpu::check
