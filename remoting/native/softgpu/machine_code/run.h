// The code of one run of ops, in the making: which registers hold which slots, and what happens off the fast
// path.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exec/image.h"
#include "machine_code/assembler.h"

namespace softgpu::machine_code {

// What all runs read: by r15.
struct Constants {
    alignas(64) uint32_t steps32[4][16];  // 0, n, 2 n, ... for n = 1, 2, 4, 8
    alignas(64) uint64_t steps64[4][2][8];
    alignas(64) uint64_t zeros[8];
    uint32_t nan32;
};
const Constants& constants();

// Slots that nothing in the function writes and that have one value in all lanes; its value where it is
// known.
using Uniform = std::unordered_map<uint32_t, std::optional<uint64_t>>;

// What was found out of addresses that stay the same for a whole launch: where they are kept in the frame,
// which is zeroed when a host thread joins.
struct Memo {
    uint64_t state;  // kUnseen, kRows, kOnes, kOther
    uint64_t first, second;
};
constexpr uint32_t kUnseen = 0, kRows = 1, kOnes = 2, kOther = 3;
class Memos {
  public:
    Memos(Function& function, std::unordered_set<uint32_t> steady)
        : function_(function), steady_(std::move(steady)) {}
    // The memo's place, of an address in `slot` whose lanes may be `step` bytes apart.
    std::optional<uint32_t> place(uint32_t slot, uint32_t step);

  private:
    static constexpr uint32_t kSlotBytes = 256;
    Function& function_;
    const std::unordered_set<uint32_t> steady_;  // slots
    std::unordered_map<uint64_t, uint32_t> places_;
    uint32_t slot_ = kNoSlot, used_ = kSlotBytes;  // of the slot that memos are put in
};

constexpr Gpr kSlots = rbx, kWarp = rbp, kGang = r12, kNumber = r13, kBlock = r14, kConstants = r15;
constexpr uint8_t kTemporary = 28;  // and up: free within an instruction

struct Value {
    uint32_t slot;
    bool wide;  // lanes of 8 bytes
    std::array<uint8_t, 4> registers;
    bool dirty;  // newer than the slot
    bool loose;  // a NaN may be another than PTX's one
    uint32_t used;
    int parts() const { return wide ? 4 : 2; }
    uint32_t end() const { return slot + (wide ? 256 : 128); }
};

struct Operand {
    std::vector<Source> part;
};

class Run {
  public:
    Run(const Uniform& uniform, Memos& memos, Assembler& to) : as(to), memos(memos), uniform_(uniform) {}

    void begin(GangHandler instead);
    void finish(const Op* next, const std::function<bool(uint32_t slot)>& is_read);
    void start_op() { ++now_; }

    // The parts of a slot as an instruction's last source; a float's may be loose.
    Operand source(uint32_t slot, bool wide, bool may_be_loose = false);
    // The same in registers; what is uniform goes to the temporary.
    std::array<uint8_t, 4> in_registers(uint32_t slot, bool wide, uint8_t temporary,
                                        bool may_be_loose = false);
    // A part of a slot of 32 bits, each lane extended to 64, in a temporary.
    void expand(uint32_t slot, int part, bool is_signed, uint8_t to);
    std::array<uint8_t, 4> fresh(bool wide);
    void bind(uint32_t slot, bool wide, std::array<uint8_t, 4> registers, bool loose = false);
    std::optional<uint64_t> known(uint32_t slot) const;
    bool is_uniform(uint32_t slot) const { return uniform_.contains(slot); }
    void make_room(int registers);
    void tighten_all();
    // The slot's value moves to the registers that it had before.
    void put_back(uint32_t slot, bool wide, const std::vector<Value>& before);
    const Value* cached(uint32_t slot, bool wide) const;
    void settle(uint32_t slot, uint32_t bytes);  // the slot's memory is what it is, and no register is

    // Off the fast path: `emit` is called when the run's end is written.
    void later(std::function<void()> emit) { later_.push_back(std::move(emit)); }
    // There: the handler does `op` for this warp, and the run goes on at `resume` with what is cached `then`.
    void call_handler(const Op* op, const std::vector<Value>& before, const std::vector<Value>& then,
                      size_t resume);
    // There too: to be followed by call_handler. Whatever `emit` calls, nothing is lost.
    void spill(const std::vector<Value>& before);
    const std::vector<Value>& values() const { return values_; }

    Assembler& as;
    Memos& memos;

  private:
    uint8_t take();
    void write_back(Value& value);
    void tighten(Value& value);
    void drop(size_t at);
    void release(const Value& value);
    Value& load(uint32_t slot, bool wide);
    void settle_others(uint32_t slot, bool wide);

    const Uniform& uniform_;
    std::vector<Value> values_;
    uint32_t free_ = (1u << kTemporary) - 1, now_ = 0;
    std::vector<std::function<void()>> later_;
    std::vector<size_t> faults_;
    size_t loop_ = 0;
};

}  // namespace softgpu::machine_code
