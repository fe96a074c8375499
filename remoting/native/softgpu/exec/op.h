// A decoded instruction, and what a handler may touch. Plain data only: this header is compiled once for
// every instruction set, and a function with external linkage in it would be merged across them by the
// linker.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine.h"

namespace softgpu {

struct Op;
struct Warp;
struct Block;
struct Frame;
struct Function;
struct LaunchState;

// Executes one instruction for the lanes in warp->mask. Returns the instruction to go on with, or null when
// the warp cannot go on: the handler has then left the reason in warp->stop.
using Handler = const Op* (*)(const Op*, Warp*);

// d, a, b, c, e are byte offsets of operands in the frame's slots: 32 lanes of 4 or 8 bytes, or the 32 bits
// of a predicate. d is written first; what the others mean is the handler's business.
struct Op {
    Handler fn;
    uint32_t d, a, b, c, e;
    int32_t jump;   // branches: the target, relative to this
    uint64_t imm;   // an address's offset, a table, a constant
    uint32_t line;  // in the PTX text
    uint32_t site;  // index in the image; picks the entry of the allocation cache
};
static_assert(sizeof(Op) == 48);

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = UINT32_MAX;
constexpr uint32_t kNoSlot = UINT32_MAX;
constexpr uint32_t kKeptBytes = 320;  // what a `locate` instruction leaves in the frame
constexpr uint32_t kMaxWarps = Limits::threads_per_block / kLanes;
constexpr uint32_t kBarriers = 16;
constexpr uint32_t kCacheEntries = 64;

// Op::imm of an instruction whose lanes may wait for each other at different places of the program.
constexpr uint64_t kMeetsAnywhere = 1;

enum class Stop : uint8_t { none, exited, blocked, yielded, fault };
enum class Wait : uint8_t { ready, barrier, members };

// Lanes of a warp that are at one place of the program. The running split is in the warp itself.
struct Split {
    const Op* pc;
    Frame* frame;
    uint32_t mask;
    uint32_t members;  // Wait::members: lanes that must come to pc
    uint32_t age;      // when it last ran
    Wait wait;
    uint8_t barrier;
};

// One call of a function by some lanes. Slots of lanes outside `lanes` hold nothing.
struct Frame {
    Frame* parent;  // who called; in the list of spare frames, the next
    const Function* function;
    std::byte* slots;
    const Op* call;  // the instruction that called, null in a kernel
    uint32_t lanes;  // that have not returned
    uint32_t depth;
    uint32_t local_base;  // of this frame's variables in the thread's local memory
    uint32_t slot_bytes;
    Frame* next;  // of all frames that the warp has made
};

struct Warp {
    std::byte* slots;    // of the running frame
    uint32_t mask;       // lanes that execute now
    uint32_t live;       // lanes that have not exited
    uint32_t partial;    // mask != live: results must not touch the other lanes' registers. Dead lanes may be
                         // written freely, so a warp that lost lanes for good still runs at full speed.
    uint32_t carry;      // CC.CF of every lane
    const Op* wait_pc;   // a running split that comes to or past this must look at the waiting ones
    int64_t budget;      // backward jumps until others get a turn
    std::byte* scratch;  // results of a partial instruction before they are blended in: 32 x 8 bytes
    Block* block;
    Frame* frame;
    uint32_t index;  // in the block
    uint32_t born;   // lanes that ever existed
    Stop stop;
    uint32_t split_count;
    uint32_t clock;        // turns given, for Split::age
    bool rotate;           // the next turn goes to the split that has waited longest
    uint64_t frame_bytes;  // of all frames but the root
    Split splits[kLanes];
    std::byte* pointers[kLanes];  // where each lane's access goes, when lanes go different ways
    Frame root;
    Frame* spare;  // frames to use again, linked through parent
    Frame* made;   // all but the root
};

struct Barrier {
    uint32_t warps_here;          // whose live lanes have all arrived
    uint32_t expected;            // warps, 0: all that have not exited
    uint32_t any, all, count;     // of bar.red's predicates
    uint32_t arrived[kMaxWarps];  // lanes
    bool used;
};

struct CachedRange {
    uint64_t base, end;
};

// One block on one host thread.
struct Block {
    LaunchState* launch;
    std::byte* shared;
    uint64_t shared_bytes;
    std::byte* local;  // thread t's at local + t * local_stride
    uint64_t local_stride;
    const std::byte* params;
    uint64_t param_bytes;
    uint64_t cache_generation;
    CachedRange cache[kCacheEntries];
    uint32_t warp_count;
    uint32_t warps_exited;
    Warp* warps;
    uint32_t x, y, z;  // ctaid
    Barrier barriers[kBarriers];
};

// Services for handlers, compiled once. Each may leave a fault in the launch and returns null or false then.
const Op* fault_lane(const Op* op, Warp* warp, Status status, unsigned lane, uint64_t address, unsigned bytes,
                     const char* action);
// Finds where each active lane's access of `bytes` at address[lane] goes, into warp->pointers.
bool resolve_lanes(const Op* op, Warp* warp, const uint64_t* addresses, unsigned bytes, const char* action);
// True when one live allocation holds [first, end); remembers it at the instruction's cache entry.
bool cache_range(const Op* op, Warp* warp, uint64_t first, uint64_t end);
// Parks the running split until all live lanes of `members` are at `op`.
const Op* wait_for_members(const Op* op, Warp* warp, uint32_t members);

struct HandlerEntry {
    const char* name;
    Handler fn;
};
struct HandlerTable {
    const HandlerEntry* entries;
    size_t count;
};

}  // namespace softgpu
