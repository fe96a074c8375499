// Every allocation that a program made, and the device memory that it lies in. Each device has a space of its
// own; their addresses differ, so an address alone says where it belongs. Host memory is in all spaces.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "call_budget.h"
#include "config.h"
#include "engine.h"
#include "failure.h"
#include "scheduler.h"
#include "slice_file.h"
#include "virtual_memory.h"

namespace softgpu::driver {

class Context;
class Pool;

enum class Place {
    device,      // cuMemAlloc
    pool,        // cuMemAllocAsync, cuMemAllocFromPoolAsync
    managed,     // cuMemAllocManaged: device memory that the program may touch itself
    pinned,      // cuMemHostAlloc: the process's memory, which kernels may touch
    registered,  // cuMemHostRegister: the program's own
};

struct Block {
    uint64_t base = 0;
    uint64_t bytes = 0;
    Place place = Place::device;
    uint64_t context = 0;  // id of the context that owns it, and its handle
    uint64_t context_handle = 0;
    unsigned flags = 0;  // as given to cuMemHostAlloc or cuMemHostRegister
    uint64_t id = 0;     // unique in the process
    std::shared_ptr<Pool> pool{};
    int device = 0;                     // of the memory; of host memory that of the context
    std::optional<uint64_t> in_file{};  // where in the slice file it begins

    bool on_device() const {
        return place == Place::device || place == Place::pool || place == Place::managed;
    }
};

class Memory {
  public:
    static constexpr uint64_t kAlign = 256;
    Memory(std::span<const DeviceConfig> devices, Scheduler& scheduler);

    // What library calls may take to work in.
    CallBudget& call_budget() { return call_budget_; }
    Account& account(int device) { return accounts_[static_cast<size_t>(device)]; }
    DeviceMemory& space(int device) { return *spaces_[static_cast<size_t>(device)]; }
    VirtualMemory& addresses() { return addresses_; }
    // What kernels may touch at `address`: an allocation, or a global of a module.
    std::optional<Allocation> allocation_at(uint64_t address) const;
    int device_at(uint64_t address) const;  // whose memory that is

    // Memory of the device's, without a block. What the session's own calls work in is waited for, and what
    // it has freed in the order of a stream. 0 where there is none.
    uint64_t place_at(int device, uint64_t bytes, uint64_t align = kAlign);
    // Calls `again` until it finds memory of the device's, as place_at() does.
    bool find_room(int device, const std::function<bool()>& again);
    // Device memory, zeroed. When none is left, waits for the context's work, which may free some, before it
    // throws OUT_OF_MEMORY.
    uint64_t allocate(Context& context, uint64_t bytes, Place place, std::shared_ptr<Pool> pool = nullptr);
    // The same without a block, and no address that a program may use.
    uint64_t place_or_refuse(Context& context, uint64_t bytes);
    // The process's slice file, of which it allocates from now on; false where it has one.
    bool use_file(int descriptor, uint64_t bytes);
    // Device memory in the slice file, from `place` on; throws OUT_OF_MEMORY where there is none.
    uint64_t allocate_in_file(Context& context, uint64_t bytes, uint64_t& place);
    uint64_t file_bytes() const;  // that are allocated
    void sweep_file();
    void* allocate_pinned(Context& context, uint64_t bytes, unsigned flags);
    void register_host(Context& context, void* memory, uint64_t bytes, unsigned flags);

    // Takes the block that starts at `base` off the books; throws INVALID_VALUE when there is none of these
    // kinds. The memory stays until release(), which waits for all work if kernels may still touch it.
    Block take_device(uint64_t base);
    Block take_host(uint64_t base, Place place);
    void release(const Block& block);

    std::optional<Block> find(uint64_t address) const;  // the block that holds it
    // The block of host memory that all of [address, address + bytes) lies in.
    bool is_pinned(const void* memory, uint64_t bytes) const;
    // Of all contexts.
    void release_context(const Context& context);

    // The end of a free of the calling session's, in the order of a stream.
    void freed_later(int device, CompletionRef end, std::shared_ptr<Queue> queue);

    // Throws INVALID_VALUE unless all of [address, address + bytes) is memory that kernels may touch, in one
    // piece: an allocation, or a global of a module.
    std::byte* checked(uint64_t address, uint64_t bytes) const;

  private:
    uint64_t add(const Context& context, Block block);
    uint64_t place_after_work(Context& context, int device, uint64_t bytes, uint64_t align);
    bool map_host(void* memory, uint64_t bytes);
    bool find_room(int device, const std::function<bool()>& again, std::chrono::nanoseconds& patience);
    bool wait_for_frees(int device, const std::function<bool()>& again, std::chrono::nanoseconds& patience);
    Block take(uint64_t base, bool (*fits)(const Block&));

    class SpaceAccount final : public Account {
      public:
        explicit SpaceAccount(DeviceMemory& memory) : memory_(memory) {}
        uint64_t all() const override { return memory_.total_bytes(); }
        bool take(uint64_t bytes) override { return memory_.take(bytes); }
        void give_back(uint64_t bytes) override { memory_.give_back(bytes); }

      private:
        DeviceMemory& memory_;
    };

    Scheduler& scheduler_;
    std::once_flag file_given_;
    std::unique_ptr<SliceFile> file_;  // outlives the spaces
    std::atomic<SliceFile*> file_in_use_{nullptr};
    std::vector<std::unique_ptr<DeviceMemory>> spaces_;
    CallBudget call_budget_;
    std::deque<SpaceAccount> accounts_;
    VirtualMemory addresses_;
    mutable std::mutex mutex_;
    std::map<uint64_t, Block> blocks_;  // by base
    uint64_t next_id_ = 1;
    struct LaterFree {
        const void* session;
        int device;
        CompletionRef end;
        std::shared_ptr<Queue> queue;
    };
    std::mutex frees_mutex_;
    std::vector<LaterFree> frees_;  // those that have ended are dropped when there are twice as many
    size_t frees_full_ = kFreesLeast;
    static constexpr size_t kFreesLeast = 64;
};

}  // namespace softgpu::driver
