#include "machine_code/run.h"

#include <bit>
#include <cstddef>
#include <iterator>

namespace softgpu::machine_code {

namespace {

constexpr Gpr kSaved[] = {rbx, rbp, r12, r13, r14, r15};

}  // namespace

namespace form {
constexpr Form load{0, 1, false, 0x10}, store{0, 1, false, 0x11}, unordered{0, 1, false, 0xc2},
    broadcast32{1, 2, false, 0x58}, broadcast64{1, 2, true, 0x59}, extend_signed{1, 2, false, 0x25},
    extend{1, 2, false, 0x35}, upper_half{1, 3, true, 0x3b}, move{0, 1, false, 0x28};
}

const Constants& constants() {
    static const Constants* const all = [] {
        auto* made = new Constants{};
        for (uint32_t n = 0; n < 4; ++n) {
            for (uint32_t i = 0; i < 16; ++i) made->steps32[n][i] = i << n;
            for (uint32_t i = 0; i < 16; ++i) made->steps64[n][i / 8][i % 8] = uint64_t(i) << n;
        }
        made->nan32 = 0x7fffffffu;
        return made;
    }();
    return *all;
}

std::optional<uint32_t> Memos::place(uint32_t slot, uint32_t step) {
    if (!steady_.contains(slot)) return std::nullopt;
    const auto [found, made] = places_.try_emplace(uint64_t(slot) << 8 | step);
    if (!made) return found->second;
    if (used_ + sizeof(Memo) > kSlotBytes) {
        slot_ = (function_.slot_bytes + 63) / 64 * 64;
        function_.slot_bytes = slot_ + kSlotBytes;
        used_ = 0;
        function_.constants.push_back({.wide = true, .slot = slot_});
    }
    found->second = slot_ + used_;
    used_ += sizeof(Memo);
    return found->second;
}

// Scalars: rbx the slots, rbp the warp, r12 the gang, r13 + offsets the warp's entries in it, r14 the block.
void Run::begin(GangHandler instead) {
    as.compare8(Memory{rsi, offsetof(Gang, full)}, 0);
    const size_t full = as.jump_if(Condition::not_equal);
    as.set(rax, reinterpret_cast<uint64_t>(instead));
    as.jump(rax);
    as.land(full, as.at());
    for (const Gpr saved : kSaved) as.push(saved);
    as.add(rsp, -8);
    as.move(kGang, rsi);
    as.load(kBlock, Memory{kGang, offsetof(Gang, block)});
    as.set(kConstants, reinterpret_cast<uint64_t>(&constants()));
    as.load32(rax, Memory{kGang, offsetof(Gang, count)});
    as.address(rax, kGang, rax);
    as.store(Memory{rsp}, rax);
    as.move(kNumber, kGang);
    loop_ = as.at();
    as.load(kSlots, Memory{kNumber, offsetof(Gang, slots)});
    as.load(kWarp, Memory{kNumber, offsetof(Gang, warps)});
}

void Run::finish(const Op* next, const std::function<bool(uint32_t slot)>& is_read) {
    for (Value& value : values_) {
        bool read = false;
        for (uint32_t slot = value.slot; slot < value.end(); slot += 64) read |= is_read(slot);
        if (read) write_back(value);
    }
    as.add(kNumber, 8);
    as.compare(kNumber, Memory{rsp});
    as.land(as.jump_if(Condition::below), loop_);
    as.set(rax, reinterpret_cast<uint64_t>(next));
    const size_t leave = as.at();
    as.clear_upper();
    as.add(rsp, 8);
    for (size_t i = std::size(kSaved); i-- > 0;) as.pop(kSaved[i]);
    as.leave();
    for (size_t i = 0; i < later_.size(); ++i) later_[i]();
    for (const size_t fault : faults_) as.land(fault, as.at());
    if (faults_.empty()) return;
    as.clear(rax);
    as.land(as.jump(), leave);
}

const Value* Run::cached(uint32_t slot, bool wide) const {
    for (const Value& value : values_)
        if (value.slot == slot && value.wide == wide) return &value;
    return nullptr;
}

void Run::release(const Value& value) {
    for (int i = 0; i < value.parts(); ++i) free_ |= 1u << value.registers[size_t(i)];
}
void Run::drop(size_t at) {
    release(values_[at]);
    values_.erase(values_.begin() + long(at));
}

void Run::tighten(Value& value) {
    if (!value.loose) return;
    for (int i = 0; i < value.parts(); ++i) {
        const uint8_t reg = value.registers[size_t(i)];
        as.vector(form::unordered, 1, reg, reg, 0, 2, 3);
        as.vector(form::broadcast32, reg, 0, Memory{kConstants, offsetof(Constants, nan32)}, 1);
    }
    value.loose = false;
}
void Run::tighten_all() {
    for (Value& value : values_) tighten(value);
}
void Run::write_back(Value& value) {
    if (!value.dirty) return;
    tighten(value);
    for (int i = 0; i < value.parts(); ++i)
        as.vector(form::store, value.registers[size_t(i)], 0, Memory{kSlots, int32_t(value.slot) + 64 * i});
    value.dirty = false;
}

void Run::make_room(int registers) {
    while (std::popcount(free_) < registers) {
        size_t oldest = values_.size();
        for (size_t i = 0; i < values_.size(); ++i) {
            if (values_[i].used != now_ &&
                (oldest == values_.size() || values_[i].used < values_[oldest].used))
                oldest = i;
        }
        write_back(values_[oldest]);
        drop(oldest);
    }
}
uint8_t Run::take() {
    make_room(1);
    const int reg = std::countr_zero(free_);
    free_ &= free_ - 1;
    return uint8_t(reg);
}
std::array<uint8_t, 4> Run::fresh(bool wide) {
    std::array<uint8_t, 4> all{};
    for (int i = 0; i < (wide ? 4 : 2); ++i) all[size_t(i)] = take();
    return all;
}

// Slots are used again for values of the other width.
void Run::settle_others(uint32_t slot, bool wide) {
    for (size_t i = values_.size(); i-- > 0;) {
        Value& value = values_[i];
        const bool same = value.slot == slot && value.wide == wide;
        if (same || value.slot >= slot + (wide ? 256 : 128) || slot >= value.end()) continue;
        write_back(value);
        drop(i);
    }
}
void Run::settle(uint32_t slot, uint32_t bytes) {
    for (size_t i = values_.size(); i-- > 0;) {
        if (values_[i].slot >= slot + bytes || slot >= values_[i].end()) continue;
        write_back(values_[i]);
        drop(i);
    }
}

Value& Run::load(uint32_t slot, bool wide) {
    settle_others(slot, wide);
    for (Value& value : values_) {
        if (value.slot != slot || value.wide != wide) continue;
        value.used = now_;
        return value;
    }
    Value made{slot, wide, fresh(wide), false, false, now_};
    for (int i = 0; i < made.parts(); ++i)
        as.vector(form::load, made.registers[size_t(i)], 0, Memory{kSlots, int32_t(slot) + 64 * i});
    values_.push_back(made);
    return values_.back();
}

std::optional<uint64_t> Run::known(uint32_t slot) const {
    const auto found = uniform_.find(slot);
    return found == uniform_.end() ? std::nullopt : found->second;
}

Operand Run::source(uint32_t slot, bool wide, bool may_be_loose) {
    Operand operand;
    if (is_uniform(slot)) {
        operand.part.assign(4, Source(Memory{kSlots, int32_t(slot), true}));
        return operand;
    }
    Value& value = load(slot, wide);
    if (!may_be_loose) tighten(value);
    for (const uint8_t reg : value.registers) operand.part.emplace_back(reg);
    return operand;
}
std::array<uint8_t, 4> Run::in_registers(uint32_t slot, bool wide, uint8_t temporary, bool may_be_loose) {
    if (is_uniform(slot)) {
        as.vector(wide ? form::broadcast64 : form::broadcast32, temporary, 0, Memory{kSlots, int32_t(slot)});
        return {temporary, temporary, temporary, temporary};
    }
    Value& value = load(slot, wide);
    if (!may_be_loose) tighten(value);
    return value.registers;
}
void Run::expand(uint32_t slot, int part, bool is_signed, uint8_t to) {
    const Form extend = is_signed ? form::extend_signed : form::extend;
    if (is_uniform(slot)) {
        as.vector(form::broadcast32, to, 0, Memory{kSlots, int32_t(slot)});
        as.vector(extend, to, 0, to);
        return;
    }
    Value& value = load(slot, false);
    tighten(value);
    const uint8_t from = value.registers[size_t(part / 2)];
    if (part % 2 == 0) {
        as.vector(extend, to, 0, from);
    } else {
        as.vector(form::upper_half, from, 0, to, 0, 2, 1);
        as.vector(extend, to, 0, to);
    }
}

void Run::bind(uint32_t slot, bool wide, std::array<uint8_t, 4> registers, bool loose) {
    settle_others(slot, wide);
    for (size_t i = 0; i < values_.size(); ++i) {
        if (values_[i].slot == slot && values_[i].wide == wide) {
            drop(i);
            break;
        }
    }
    values_.push_back(Value{slot, wide, registers, true, loose, now_});
}

void Run::put_back(uint32_t slot, bool wide, const std::vector<Value>& before) {
    for (const Value& old : before) {
        if (old.slot != slot || old.wide != wide) continue;
        for (Value& value : values_) {
            if (value.slot != slot || value.wide != wide) continue;
            for (size_t i = 0; i < size_t(value.parts()); ++i)
                as.vector(form::move, old.registers[i], 0, value.registers[i]);
            release(value);
            value.registers = old.registers;
            for (size_t i = 0; i < size_t(value.parts()); ++i) free_ &= ~(1u << old.registers[i]);
        }
    }
}

void Run::spill(const std::vector<Value>& before) {
    for (Value value : before) write_back(value);
}

void Run::call_handler(const Op* op, const std::vector<Value>& before, const std::vector<Value>& then,
                       size_t resume) {
    spill(before);
    as.set(rdi, reinterpret_cast<uint64_t>(op));
    as.move(rsi, kWarp);
    as.set(rax, reinterpret_cast<uint64_t>(op->fn));
    as.call(rax);
    as.test(rax, rax);
    faults_.push_back(as.jump_if(Condition::equal));
    for (const Value& value : then) {
        for (int i = 0; i < value.parts(); ++i)
            as.vector(form::load, value.registers[size_t(i)], 0,
                      Memory{kSlots, int32_t(value.slot) + 64 * i});
    }
    as.land(as.jump(), resume);
}

}  // namespace softgpu::machine_code
