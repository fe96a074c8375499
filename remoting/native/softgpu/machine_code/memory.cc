// Accesses: two halves of a warp, each in a row or all at one place, checked as the gang's handlers do it
// (exec/lanes/address.h). All else goes to the handler, and so does what a check finds.
#include <cstddef>
#include <limits>
#include <memory>

#include "machine_code/select.h"

namespace softgpu::machine_code {
namespace {

enum class Where : uint8_t { global, shared32, shared64 };
enum class Act : uint8_t { load, store, locate, load_kept, store_kept };

struct Access {
    Act act;
    Where where;
    uint8_t bytes = 4;
    bool is_signed = false;
};

// As in exec/lanes/address.h.
constexpr uint32_t kHalfRows = 3, kHalfOnes = 4;
constexpr int32_t kKeptImmediate = 8, kKeptBase = 16, kKeptSecond = 24;

constexpr Form kLoad{0, 1, false, 0x10}, kStore{0, 1, false, 0x11}, kBroadcast32{1, 2, false, 0x58},
    kBroadcast64{1, 2, true, 0x59}, kToScalar32{1, 1, false, 0x7e}, kToScalar64{1, 1, true, 0x7e},
    kSub32{1, 1, false, 0xfa}, kSub64{1, 1, true, 0xfb}, kCompare32{1, 3, false, 0x1f},
    kCompare64{1, 3, true, 0x1f}, kAllOfMask16{0, 1, false, 0x98}, kAllOfMask8{1, 1, false, 0x98},
    kExtend8{1, 2, false, 0x31}, kExtendSigned8{1, 2, false, 0x21}, kExtend16{1, 2, false, 0x33},
    kExtendSigned16{1, 2, false, 0x23}, kCut8{2, 2, false, 0x31}, kCut16{2, 2, false, 0x33},
    kMove{0, 1, false, 0x28};

#define SPACE(NAME, WHERE)                                                                                  \
    {"ld." NAME ".u8"_op, {Act::load, WHERE, 1}}, {"ld." NAME ".s8"_op, {Act::load, WHERE, 1, true}},       \
        {"ld." NAME ".u16"_op, {Act::load, WHERE, 2}}, {"ld." NAME ".s16"_op, {Act::load, WHERE, 2, true}}, \
        {"ld." NAME ".b32"_op, {Act::load, WHERE, 4}}, {"ld." NAME ".b64"_op, {Act::load, WHERE, 8}},       \
        {"st." NAME ".b8"_op, {Act::store, WHERE, 1}}, {"st." NAME ".b16"_op, {Act::store, WHERE, 2}},      \
        {"st." NAME ".b32"_op, {Act::store, WHERE, 4}}, {"st." NAME ".b64"_op, {Act::store, WHERE, 8}},
#define KEPT(NAME, WHERE)                                                                                  \
    {"locate." NAME ""_op, {Act::locate, WHERE}}, {"ld." NAME ".b32.kept"_op, {Act::load_kept, WHERE, 4}}, \
        {"ld." NAME ".b64.kept"_op, {Act::load_kept, WHERE, 8}},                                           \
        {"st." NAME ".b32.kept"_op, {Act::store_kept, WHERE, 4}},                                          \
        {"st." NAME ".b64.kept"_op, {Act::store_kept, WHERE, 8}},

const std::unordered_map<Code, Access>& accesses() {
    static const std::unordered_map<Code, Access> all{
        SPACE("global", Where::global) SPACE("generic", Where::global) SPACE("shared32", Where::shared32)
            SPACE("shared64", Where::shared64) KEPT("global", Where::global) KEPT("shared32", Where::shared32)
                KEPT("shared64", Where::shared64)};
    return all;
}

bool small(uint64_t value) {
    return int64_t(value) >= std::numeric_limits<int32_t>::min() / 2 &&
           int64_t(value) <= std::numeric_limits<int32_t>::max() / 2;
}
int log2_of(uint32_t bytes) {
    return __builtin_ctz(bytes);
}

// Of 32 addresses that stay the same: are both halves rows of `bytes` a lane, or each at one place?
template <class A>
void note_shape(const A* addresses, Memo* memo, uint64_t bytes) {
    bool rows = true, ones = true;
    for (uint32_t i = 0; i < kLanes; ++i) {
        const A from = A(addresses[i] - addresses[i & 16]);
        rows = rows && from == A((i & 15) * bytes);
        ones = ones && from == 0;
    }
    const bool aligned = ((addresses[0] | addresses[16]) & (bytes - 1)) == 0;
    memo->first = addresses[0];
    memo->second = addresses[16];
    memo->state = !aligned ? kOther : rows ? kRows : ones ? kOnes : kOther;
}

// The code of one access, in the making. rax and rcx: where its halves are.
class Maker : public std::enable_shared_from_this<Maker> {
  public:
    Maker(const Access& access, const Op& op, Run& run) : access_(access), op_(op), run_(run), as_(run.as) {}

    void load() {
        wide_ = access_.bytes == 8;
        address();
        to_ = run_.fresh(wide_);
        before_ = run_.values();
        rows(16 * access_.bytes);
        read_rows(0);
        run_.bind(op_.d, wide_, to_);
        done();
        if (access_.bytes >= 4) {
            ones_later(access_.bytes, [](Maker& self) { self.read_ones(0); });
        } else {
            no_ones();
        }
        handler_later();
    }
    void store() {
        wide_ = access_.bytes == 8;
        address();
        to_ = run_.in_registers(op_.b, wide_, kTemporary + 3);
        before_ = run_.values();
        rows(16 * access_.bytes);
        write_rows(0);
        done();
        no_ones();
        handler_later();
    }
    void locate() {
        run_.settle(uint32_t(op_.jump), kKeptBytes);
        access_.bytes = uint8_t(op_.b);
        address();
        before_ = run_.values();
        rows(15 * op_.b + op_.c);
        keep(kHalfRows);
        done();
        ones_later(op_.c, [](Maker& self) { self.keep(kHalfOnes); });
        handler_later();
    }
    void kept(const Op& located, bool store) {
        wide_ = access_.bytes == 8;
        const int32_t delta = int32_t(op_.imm - located.imm);
        to_ = store ? run_.in_registers(op_.b, wide_, kTemporary + 3) : run_.fresh(wide_);
        before_ = run_.values();
        const Memory shape{kSlots, op_.jump};
        as_.compare32(shape, kHalfRows);
        no_rows_ = as_.jump_if(Condition::not_equal);
        load_kept();
        if (store)
            write_rows(delta);
        else
            read_rows(delta), run_.bind(op_.d, wide_, to_);
        done();
        if (store) {
            handler_.push_back(no_rows_);
        } else {
            run_.later([self = shared_from_this(), shape, delta] {
                self->as_.land(self->no_rows_, self->as_.at());
                self->as_.compare32(shape, kHalfOnes);
                self->handler_.push_back(self->as_.jump_if(Condition::not_equal));
                self->load_kept();
                self->read_ones(delta);
                self->as_.land(self->as_.jump(), self->resume_);
            });
        }
        handler_later();
    }

  private:
    bool wide_address() const { return access_.where != Where::shared32; }
    void address() {
        if (op_.imm % access_.bytes == 0) memo_ = run_.memos.place(op_.a, access_.bytes);
        if (!memo_) address_ = run_.in_registers(op_.a, wide_address(), kTemporary + 2);
    }
    Memory memo(size_t member) const { return {kSlots, int32_t(*memo_ + member)}; }
    void load_memo() {
        as_.load(r8, memo(offsetof(Memo, first)));
        as_.load(r9, memo(offsetof(Memo, second)));
    }

    // Jumps to no_rows_ unless both halves are rows, and to the handler unless they are where they may be.
    void rows(uint32_t length) {
        if (memo_) {
            as_.compare32(memo(offsetof(Memo, state)), kRows);
            no_rows_ = as_.jump_if(Condition::not_equal);
            load_memo();
            return check(length);
        }
        firsts();
        steps(Memory{kConstants, table(0)}, Memory{kConstants, table(1)});
        no_rows_ = as_.jump_if(Condition::not_below);
        check(length);
    }
    int32_t table(int second) const {
        const int step = log2_of(access_.bytes);
        return wide_address() ? int32_t(offsetof(Constants, steps64)) + 128 * step + 64 * second
                              : int32_t(offsetof(Constants, steps32)) + 64 * step;
    }
    // The address of each half's first lane, to r8 and r9 and to two temporaries.
    void firsts() {
        const Form scalar = wide_address() ? kToScalar64 : kToScalar32;
        const Form all = wide_address() ? kBroadcast64 : kBroadcast32;
        const uint8_t first = address_[0], second = address_[wide_address() ? 2 : 1];
        scalar_from(scalar, first, r8);
        scalar_from(scalar, second, r9);
        as_.vector(all, kTemporary, 0, first);
        as_.vector(all, kTemporary + 1, 0, second);
    }
    // vmovd, vmovq: the vector is in ModRM.reg.
    void scalar_from(Form form, uint8_t vector, Gpr to) { as_.vector(form, vector, 0, uint8_t(to), 0, 0); }

    // Sets the carry if the lanes' addresses are those of their half's first plus `low` and `high`.
    void steps(Memory low, Memory high) {
        const bool wide = wide_address();
        for (size_t i = 0; i < (wide ? 4 : 2); ++i) {
            const uint8_t first = uint8_t(kTemporary + (wide ? i / 2 : i));
            const uint8_t difference = kTemporary + (uniform_address() ? 3 : 2);
            as_.vector(wide ? kSub64 : kSub32, difference, address_[i], first);
            as_.vector(wide ? kCompare64 : kCompare32, 1, difference, wide && i % 2 == 1 ? high : low,
                       i == 0 ? 0 : 1, 2, 0);
        }
        as_.masks(wide ? kAllOfMask8 : kAllOfMask16, false, 1, 0, 1);
    }
    bool uniform_address() const { return address_[0] == kTemporary + 2; }

    void check(uint32_t length) {
        check_half(r8, rax, length);
        check_half(r9, rcx, length);
        if (access_.bytes == 1 || memo_) return;
        as_.move(rdx, rax);
        as_.either(rdx, rcx);
        as_.test(rdx, access_.bytes - 1);
        handler_.push_back(as_.jump_if(Condition::not_equal));
    }
    void check_half(Gpr from, Gpr to, uint32_t length) {
        as_.address(to, Memory{from, int32_t(op_.imm)});
        Memory end{kBlock, offsetof(Block, shared_bytes)};
        if (access_.where == Where::global) {
            const int32_t cached =
                int32_t(offsetof(Block, cache) + op_.site % kCacheEntries * sizeof(CachedRange));
            as_.compare(to, Memory{kBlock, cached + int32_t(offsetof(CachedRange, base))});
            handler_.push_back(as_.jump_if(Condition::below));
            end.displacement = cached + int32_t(offsetof(CachedRange, end));
        }
        as_.load(rdx, end);
        as_.subtract(rdx, to);
        handler_.push_back(as_.jump_if(Condition::below));
        as_.compare(rdx, int32_t(length));
        handler_.push_back(as_.jump_if(Condition::below));
        if (access_.where != Where::global) as_.add(to, Memory{kBlock, offsetof(Block, shared)});
    }

    void read_rows(int32_t delta) {
        if (wide_) {
            for (size_t i = 0; i < 4; ++i)
                as_.vector(kLoad, to_[i], 0, Memory{i < 2 ? rax : rcx, delta + int32_t(i % 2) * 64});
            return;
        }
        const Form form = access_.bytes == 4   ? kLoad
                          : access_.bytes == 2 ? (access_.is_signed ? kExtendSigned16 : kExtend16)
                                               : (access_.is_signed ? kExtendSigned8 : kExtend8);
        as_.vector(form, to_[0], 0, Memory{rax, delta});
        as_.vector(form, to_[1], 0, Memory{rcx, delta});
    }
    void read_ones(int32_t delta) {
        const Form form = wide_ ? kBroadcast64 : kBroadcast32;
        as_.vector(form, to_[0], 0, Memory{rax, delta});
        if (wide_) as_.vector(kMove, to_[1], 0, to_[0]);
        as_.vector(form, to_[wide_ ? 2 : 1], 0, Memory{rcx, delta});
        if (wide_) as_.vector(kMove, to_[3], 0, to_[2]);
    }
    void write_rows(int32_t delta) {
        if (wide_) {
            for (size_t i = 0; i < 4; ++i)
                as_.vector(kStore, to_[i], 0, Memory{i < 2 ? rax : rcx, delta + int32_t(i % 2) * 64});
            return;
        }
        const Form form = access_.bytes == 4 ? kStore : access_.bytes == 2 ? kCut16 : kCut8;
        as_.vector(form, to_[0], 0, Memory{rax, delta});
        as_.vector(form, to_[1], 0, Memory{rcx, delta});
    }
    void keep(uint32_t shape) {
        as_.store32(Memory{kSlots, op_.jump}, shape);
        as_.set(rdx, op_.imm);
        as_.store(Memory{kSlots, op_.jump + kKeptImmediate}, rdx);
        as_.store(Memory{kSlots, op_.jump + kKeptBase}, rax);
        as_.store(Memory{kSlots, op_.jump + kKeptSecond}, rcx);
    }
    void load_kept() {
        as_.load(rax, Memory{kSlots, op_.jump + kKeptBase});
        as_.load(rcx, Memory{kSlots, op_.jump + kKeptSecond});
    }

    void done() {
        then_ = run_.values();
        resume_ = as_.at();
    }
    // The first time, what the addresses are like is noted.
    void note() {
        run_.spill(before_);
        as_.compare32(memo(offsetof(Memo, state)), kUnseen);
        const size_t seen = as_.jump_if(Condition::not_equal);
        as_.address(rdi, Memory{kSlots, int32_t(op_.a)});
        as_.address(rsi, memo(0));
        as_.set(rdx, access_.bytes);
        as_.set(rax, wide_address() ? reinterpret_cast<uint64_t>(&note_shape<uint64_t>)
                                    : reinterpret_cast<uint64_t>(&note_shape<uint32_t>));
        as_.call(rax);
        as_.land(seen, as_.at());
    }
    void no_ones() { handler_.push_back(no_rows_); }
    void ones_later(uint32_t length, void (*make)(Maker&)) {
        run_.later([self = shared_from_this(), length, make] {
            self->as_.land(self->no_rows_, self->as_.at());
            self->ones();
            self->check(length);
            make(*self);
            self->as_.land(self->as_.jump(), self->resume_);
        });
    }
    // Goes to the handler unless each half is at one place.
    void ones() {
        if (memo_) {
            as_.compare32(memo(offsetof(Memo, state)), kOnes);
            handler_.push_back(as_.jump_if(Condition::not_equal));
            return load_memo();
        }
        const Memory zero{kConstants, int32_t(offsetof(Constants, zeros))};
        steps(zero, zero);
        handler_.push_back(as_.jump_if(Condition::not_below));
    }
    void handler_later() {
        run_.later([self = shared_from_this()] {
            for (const size_t jump : self->handler_) self->as_.land(jump, self->as_.at());
            if (self->memo_) self->note();
            self->run_.call_handler(&self->op_, self->before_, self->then_, self->resume_);
        });
    }

    Access access_;
    const Op& op_;
    Run& run_;
    Assembler& as_;
    bool wide_ = false;
    std::array<uint8_t, 4> address_{}, to_{};
    std::vector<Value> before_, then_;
    std::vector<size_t> handler_;
    size_t no_rows_ = 0, resume_ = 0;
    std::optional<uint32_t> memo_;
};

}  // namespace

bool is_access(Code code) {
    return accesses().contains(code);
}

bool supports_access(Code code, const Op& op, const Run& run, const Located& located) {
    const Access& access = accesses().at(code);
    if (!small(op.imm)) return false;
    switch (access.act) {
        case Act::locate:
            return (op.b == 4 || op.b == 8) && op.c < (1u << 20);
        case Act::load_kept:
        case Act::store_kept: {
            const auto found = located.find(uint32_t(op.jump));
            return found != located.end() && small(op.imm - found->second->imm);
        }
        case Act::store:
            return !run.is_uniform(op.a);  // of all lanes at one place, one
        default:
            return true;
    }
}

Slots slots_of_access(Code code, const Op& op) {
    const Access& access = accesses().at(code);
    const std::pair<uint32_t, bool> place{op.a, access.where != Where::shared32};
    const bool wide = access.bytes == 8;
    switch (access.act) {
        case Act::locate:
            return {{place}, {}};
        case Act::load:
        case Act::load_kept:
            return {{place}, {{op.d, wide}}};
        default:
            return {{place, {op.b, wide}}, {}};
    }
}

bool finds_its_place(Code code) {
    const Act act = accesses().at(code).act;
    return act == Act::load || act == Act::store;
}

void emit_access(Code code, const Op& op, Run& run, const Located& located) {
    const Access& access = accesses().at(code);
    const auto maker = std::make_shared<Maker>(access, op, run);
    switch (access.act) {
        case Act::load:
            return maker->load();
        case Act::store:
            return maker->store();
        case Act::locate:
            return maker->locate();
        default:
            return maker->kept(*located.at(uint32_t(op.jump)), access.act == Act::store_kept);
    }
}

}  // namespace softgpu::machine_code
