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
struct Gang;
struct Block;
struct Frame;
struct Function;
struct LaunchState;
struct Sums;
namespace texture {
class Cache;
}

// Executes one instruction for the lanes in warp->mask. Returns the instruction to go on with, or null when
// the warp cannot go on: the handler has then left the reason in warp->stop.
using Handler = const Op* (*)(const Op*, Warp*);

// The same for the warps of a gang, in lockstep. Returns null when they do not go on together: a fault is
// then in the launch, or each warp that can go on is parked where it does.
using GangHandler = const Op* (*)(const Op*, Gang*);

// `gang` null: the gang's warps go through `one` one after the other.
// `pure`: the result is a function of the operands' lanes and nothing else, and nothing else happens.
struct Handlers {
    Handler one;
    GangHandler gang = nullptr;
    bool pure = false;
    constexpr operator Handler() const { return one; }
};
constexpr Handlers as_pure(Handlers handlers) {
    return {handlers.one, handlers.gang, true};
}

// d, a, b, c, e are byte offsets of operands in the frame's slots: 32 lanes of 4 or 8 bytes, or the 32 bits
// of a predicate. d is written first; what the others mean is the handler's business.
struct Op {
    Handler fn;
    GangHandler gang;
    uint32_t d, a, b, c, e;
    int32_t jump;   // branches: the target, relative to this
    uint64_t imm;   // an address's offset, a table, a constant
    uint32_t line;  // in the PTX text
    uint32_t site;  // index in the image; picks the entry of the allocation cache
};
static_assert(sizeof(Op) == 56);

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = UINT32_MAX;
constexpr uint32_t kNoSlot = UINT32_MAX;
constexpr uint32_t kKeptBytes = 320;  // what a `locate` instruction leaves in the frame
constexpr uint32_t kMaxWarps = Limits::threads_per_block / kLanes;
constexpr uint32_t kGangWarps = 8;
constexpr uint32_t kBarriers = 16;
constexpr uint32_t kCacheEntries = 64;

// Op::imm of an instruction whose lanes may wait for each other at different places of the program.
constexpr uint64_t kMeetsAnywhere = 1;

enum class Stop : uint8_t {
    none,
    exited,
    blocked,
    yielded,
    met,
    fault
};  // met: others wait here, see gang.h
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
    const Op* meet;      // where other warps wait for this one, null when it goes on by itself
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
    Frame root;
    Split splits[kLanes];
    std::byte* pointers[kLanes];  // where each lane's access goes, when lanes go different ways
    Frame* spare;                 // frames to use again, linked through parent
    Frame* made;                  // all but the root
};

// Warps of a block that are at one place, each with all its lanes, and go on in lockstep.
struct Gang {
    uint32_t count;
    const Op* wait_pc;  // a gang that comes to or past this must look for other warps
    bool full;          // no warp has lost a lane
    Block* block;
    std::byte* slots[kGangWarps];  // of the warps' running frames
    Warp* warps[kGangWarps];       // the first one's budget is the gang's
};

struct Barrier {
    uint32_t warps_here;          // whose live lanes have all arrived
    uint32_t expected;            // warps, 0: all that have not exited
    uint32_t any, all, count;     // of bar.red's predicates
    uint32_t arrived[kMaxWarps];  // lanes
};

struct CachedRange {
    uint64_t base, end;
    uint64_t last;  // where a gang's access began, to guess where the next one will
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
    uint32_t x, y, z;         // ctaid
    uint32_t multiprocessor;  // the number of the host thread that runs the block, within the launch
    Barrier barriers[kBarriers];
    uint32_t barriers_used;  // bit per barrier that somebody has come to
    Sums* sums;              // what is still to be added to device memory, see sums.h
    texture::Cache* textures;
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
    Handlers fn;
};
struct HandlerTable {
    const HandlerEntry* entries;
    size_t count;
};

}  // namespace softgpu
