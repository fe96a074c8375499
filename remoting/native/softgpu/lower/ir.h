// A function between PTX and decoded ops: values instead of registers, blocks instead of labels.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "exec/image.h"
#include "ptx/error.h"
#include "ptx/syntax.h"

namespace softgpu::lower {

constexpr uint32_t kNoValue = UINT32_MAX;
constexpr uint32_t kNoBlock = UINT32_MAX;

enum class Width : uint8_t { predicate, narrow, wide };  // a mask, 32 lanes of 32 bits, 32 lanes of 64 bits

// Does the constant change from block to block of a launch?
inline bool differs_by_block(const SlotInit& init) {
    return init.kind == SlotInit::Kind::special && init.index >= uint32_t(Special::ctaid_x) &&
           init.index <= uint32_t(Special::ctaid_z);
}

struct Value {
    Width width = Width::narrow;
    bool constant = false;  // never written by an instruction: `init` says what it holds
    SlotInit init;
    uint32_t slot = kNoSlot;
};

// Operand fields in the order of Op: d, a, b, c, e, and the jump field where an instruction has six operands.
enum Field : uint8_t { kD, kA, kB, kC, kE, kJump, kFields };

// Where an access goes, as handlers' names have it (instructions.txt, `let where`).
enum class Where : uint8_t { global, shared32, shared64, local, generic };

// What kind of memory access an instruction is, for those that may share a survey of their addresses.
struct Access {
    Handler kept = nullptr;  // the handler behind a survey; null for all other instructions
    Where where = Where::generic;
    uint32_t bytes = 0;  // of a lane
};

struct Inst {
    Handler fn = nullptr;
    std::array<uint32_t, kFields> values{kNoValue, kNoValue, kNoValue, kNoValue, kNoValue, kNoValue};
    uint8_t defs = 0;   // bit per field that is written
    bool copy = false;  // d = a, nothing else
    bool crosses =
        false;  // lanes or operands do not go elementwise: the result may not share an operand's slot
    uint32_t guard = kNoValue;
    bool guard_negated = false;
    uint64_t imm = 0;
    unsigned line = 0;
    std::vector<uint32_t> extra_uses, extra_defs;  // of calls and the like
    CallSite* call = nullptr;
    Access access;
    uint32_t kept = UINT32_MAX;  // of a `locate` and those that use it: which place in the frame
    uint32_t raw_b = kNoValue, raw_c = kNoValue;  // of a `locate`: numbers that go into the op as they are
    bool waits = false;                           // other lanes may join or leave here
    bool adds = false;                            // to memory, what others may see late
    // Only in a program that is to be checked:
    std::string_view name;    // of the handler
    uint32_t order = 0;       // check::Access: what it orders
    uint64_t moves = 0;       // check::Matrix, of wmma.load and wmma.store
    bool slot_table = false;  // imm becomes a table of the slots of extra_defs and extra_uses
};

enum class End : uint8_t { jump, branch, table, stop };  // stop: the last instruction does not go on

// The blocks that a branch table names; all branches through it share them.
using Targets = std::shared_ptr<const std::vector<uint32_t>>;

struct Block {
    std::vector<Inst> code;
    End end = End::stop;
    uint32_t condition = kNoValue;  // branch: predicate; table: index
    bool negated = false;
    uint32_t target = kNoBlock;  // jump, branch when taken
    uint32_t next = kNoBlock;    // branch when not taken
    Targets targets;             // table
    unsigned line = 0;

    template <class F>
    void each_successor(F f) const {
        if (end == End::jump || end == End::branch) f(target);
        if (end == End::branch) f(next);
        if (end == End::table) {
            for (const uint32_t block : *targets) f(block);
        }
    }
};

// A variable of the function in .param, .reg or .local: promoted to a value, or placed in local memory.
struct Storage {
    uint32_t value = kNoValue;
    uint32_t local_offset = 0;
    uint32_t bytes = 0;
};

struct Body {
    std::vector<Value> values;
    std::vector<Block> blocks;    // blocks[0] is the entry
    std::vector<uint32_t> order;  // of emission
    std::vector<Inst> prologue;   // of a kernel: pure, of what is the same in all blocks of a launch
    uint32_t local_bytes = 0;
    uint32_t kept_count = 0;      // places for `locate` instructions
    uint32_t kept_offset = 0;     // of the first in the frame
    std::vector<Storage> params;  // of a device function: its return values first
};

}  // namespace softgpu::lower
