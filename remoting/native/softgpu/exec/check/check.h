// The teaching mode: what a launch that is checked keeps, and what its handlers do. Only programs that were
// lowered for it have these handlers (lower/check.cc); no other instruction knows of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "exec/check/access.h"
#include "exec/check/budget.h"
#include "exec/check/device_memory.h"
#include "exec/check/order.h"
#include "exec/check/request.h"
#include "exec/launch.h"

namespace softgpu::check {

enum class Kind : uint8_t { write_write, read_write, unwritten, other_place, missing, absent_source };

// Why two accesses race.
enum class Why : uint8_t {
    unordered,
    no_fence,          // a lock or a flag without fences is between them
    warp_synchronous,  // volatile, as before warps' lanes could go their own ways
    not_waited,        // one is cp.async's, and nobody has waited for it
};

// One block: who accessed each unit of shared memory, which bytes are written, who waits at which barrier.
struct BlockState {
    struct Cell {
        Stamp writer, readers[2];
    };
    struct Wait {
        const Op* op = nullptr;
        std::array<uint32_t, kMaxWarps> lanes{};
        bool counted = false;  // the program says how many come
        bool told = false;
    };
    uint64_t block = UINT64_MAX;  // its number
    Order order;
    std::vector<Cell> cells;
    std::vector<bool> shared_written, local_written;
    BlockKnowledge blocks;  // what it knows of other blocks
    bool follows_device = false;
    Room room;  // for all of this
    std::array<Wait, kBarriers> waits;
};

// Two accesses that race: the later one is `lane` of `warp` at `op`.
struct Race {
    Kind kind;
    Why why;
    const Warp* warp;
    const Op* op;
    uint32_t lane;
    bool writes;
    const Op* other;
    uint32_t other_thread;
    uint64_t other_block = UINT64_MAX;  // if it is not the same
};

// One launch: its findings, each pair of instructions once.
class LaunchChecks {
  public:
    LaunchChecks(const LaunchState& launch, const Request& request) : launch_(launch), request_(request) {}

    bool asks(Check check) const { return request_.checks & check; }
    BlockState& block(Warp* warp);
    DeviceAccesses& device() { return device_; }
    LeftByBlocks& left_by_blocks() { return left_by_blocks_; }

    template <class Place>
    void race(const Race& race, Place place) {
        const std::lock_guard lock(mutex_);
        if (first(race.kind, race.op, race.other))
            tell(race, place());
        else
            widen(race);
    }
    void unwritten(const Warp* warp, const Op* op, uint32_t lane, const std::string& what,
                   const char* remedy);
    void other_place(const Warp* warp, const Op* op, const Op* other, uint32_t thread, uint32_t other_thread);
    void missing(const Warp* warp, const Op* op, uint32_t come, uint32_t thread);
    void absent_source(const Warp* warp, const Op* op, uint32_t lane, uint32_t source);
    std::string shared_place(uint64_t offset) const;
    std::string device_place(uint64_t address) const;

    // At the end of the launch.
    bool found_something();
    void report();

  private:
    struct Told {
        std::string text;
        const char* remedy;
        Kind kind;
        const Op *op, *other;
    };
    static constexpr size_t kMostTold = 20;
    static constexpr size_t kMostSeen = 4096;  // pairs of instructions can be as many as their number squared
    bool first(Kind kind, const Op* a, const Op* b);
    void tell(const Race& race, const std::string& place);
    void widen(const Race& race);
    void add(Told told);
    const char* remedy(const Told& told) const;
    size_t parameter_with(const Allocation& allocation) const;
    std::string thread_name(uint32_t thread) const;
    std::string block_name(uint64_t number) const;
    void begin(BlockState& state, const Block* block, uint64_t number);
    // What could not be looked at, in words.
    std::string left_out() const;

    const LaunchState& launch_;
    const Request& request_;
    std::mutex mutex_;
    std::map<const Block*, std::unique_ptr<BlockState>> blocks_;
    std::map<std::tuple<Kind, const Op*, const Op*>, uint64_t> seen_;
    std::vector<Told> told_;
    DeviceAccesses device_;
    LeftByBlocks left_by_blocks_;
    std::atomic<bool> lost_order_{false}, lost_blocks_{false};
};

}  // namespace softgpu::check
