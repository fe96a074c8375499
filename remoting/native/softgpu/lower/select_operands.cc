// Operands: registers, literals, special registers and predicates as values.
#include <cstring>

#include "exec/image.h"
#include "lower/select.h"

namespace softgpu::lower {
namespace {

const std::unordered_map<std::string_view, Special>& specials() {
    static const auto* names = new std::unordered_map<std::string_view, Special>{
        {"%tid.x", Special::tid_x},
        {"%tid.y", Special::tid_y},
        {"%tid.z", Special::tid_z},
        {"%ntid.x", Special::ntid_x},
        {"%ntid.y", Special::ntid_y},
        {"%ntid.z", Special::ntid_z},
        {"%ctaid.x", Special::ctaid_x},
        {"%ctaid.y", Special::ctaid_y},
        {"%ctaid.z", Special::ctaid_z},
        {"%nctaid.x", Special::nctaid_x},
        {"%nctaid.y", Special::nctaid_y},
        {"%nctaid.z", Special::nctaid_z},
        {"%tid.w", Special::zero},
        {"%ntid.w", Special::zero},
        {"%ctaid.w", Special::zero},
        {"%nctaid.w", Special::zero},
        {"%laneid", Special::laneid},
        {"%warpid", Special::warpid},
        {"%nwarpid", Special::nwarpid},
        {"%smid", Special::smid},
        {"%nsmid", Special::nsmid},
        {"%gridid", Special::gridid},
        {"%lanemask_eq", Special::lanemask_eq},
        {"%lanemask_le", Special::lanemask_le},
        {"%lanemask_lt", Special::lanemask_lt},
        {"%lanemask_ge", Special::lanemask_ge},
        {"%lanemask_gt", Special::lanemask_gt},
        {"%dynamic_smem_size", Special::dynamic_smem_size},
        {"%total_smem_size", Special::total_smem_size},
        {"%aggr_smem_size", Special::total_smem_size},
        {"%envreg1", Special::grid_workspace_high},
        {"%envreg2", Special::grid_workspace_low},
        // A cluster is one block.
        {"%clusterid.x", Special::ctaid_x},
        {"%clusterid.y", Special::ctaid_y},
        {"%clusterid.z", Special::ctaid_z},
        {"%nclusterid.x", Special::nctaid_x},
        {"%nclusterid.y", Special::nctaid_y},
        {"%nclusterid.z", Special::nctaid_z},
        {"%cluster_nctaid.x", Special::one},
        {"%cluster_nctaid.y", Special::one},
        {"%cluster_nctaid.z", Special::one},
        {"%cluster_nctarank", Special::one},
    };
    return *names;
}

// What no launch here sets: performance counters, the other environment registers, reserved shared memory.
bool reads_zero(std::string_view name) {
    for (const std::string_view prefix :
         {"%pm", "%envreg", "%reserved_smem_", "%cluster_ctaid.", "%cluster_ctarank", "%clusterid.w",
          "%nclusterid.w", "%current_graph_exec"}) {
        if (name.starts_with(prefix)) return true;
    }
    return false;
}

uint64_t float_bits(uint64_t bits, bool narrow, ptx::Type type) {
    double wide = 0;
    float single = 0;
    const uint32_t low = uint32_t(bits);
    if (narrow)
        std::memcpy(&single, &low, 4), wide = single;
    else
        std::memcpy(&wide, &bits, 8), single = float(wide);
    if (type == ptx::Type::f64) {
        if (!narrow) return bits;
        uint64_t out = 0;
        std::memcpy(&out, &wide, 8);
        return out;
    }
    if (narrow) return low;
    uint32_t out = 0;
    std::memcpy(&out, &single, 4);
    return out;
}

}  // namespace

uint32_t Selector::new_value(Width width) {
    Value value;
    value.width = width;
    body_.values.push_back(value);
    return uint32_t(body_.values.size() - 1);
}

uint32_t Selector::constant(SlotInit init) {
    const auto key =
        std::make_tuple(int(init.kind), init.wide, init.is_signed, int(init.bytes), init.index, init.value);
    const auto known = constants_.find(key);
    if (known != constants_.end()) return known->second;
    const uint32_t value = new_value(init.wide ? Width::wide : Width::narrow);
    body_.values[value].constant = true;
    body_.values[value].init = init;
    constants_.emplace(key, value);
    return value;
}

uint32_t Selector::immediate(Width width, uint64_t bits) {
    SlotInit init;
    init.wide = width == Width::wide;
    init.value = init.wide ? bits : uint32_t(bits);
    return constant(init);
}

uint32_t Selector::special(std::string_view name, Type type) {
    const bool wide = ptx::traits(type).bytes == 8;
    const auto known = specials().find(name);
    if (known != specials().end()) {
        SlotInit init;
        init.kind = SlotInit::Kind::special;
        init.index = uint32_t(known->second);
        init.wide = wide;
        return constant(init);
    }
    const bool clock = name == "%clock" || name == "%clock_hi" || name == "%clock64";
    const bool timer = name == "%globaltimer" || name == "%globaltimer_lo" || name == "%globaltimer_hi";
    if (clock || timer) {
        const uint32_t both = new_value(Width::wide);
        emit(clock ? "clock"_op : "globaltimer"_op, both);
        if (wide) return both;
        const bool high = name == "%clock_hi" || name == "%globaltimer_hi";
        const uint32_t part = new_value(Width::narrow);
        emit(high ? "part1.b64.b32"_op : "part0.b64.b32"_op, part, both);
        return part;
    }
    if (reads_zero(name)) return immediate(wide ? Width::wide : Width::narrow, 0);
    fail("unknown special register " + std::string(name.substr(0, 80)));
}

const ptx::Operand& Selector::operand(size_t index) const {
    if (index >= now_->operands.size()) fail(full_name() + " wants more operands");
    return now_->operands[index];
}

void Selector::expect_operands(size_t least, size_t most) const {
    const size_t count = now_->operands.size();
    if (count < least || count > most) fail(full_name() + " has " + std::to_string(count) + " operands");
}

uint32_t Selector::literal(const ptx::Operand& operand, Type type) {
    const Width width = width_of(type);
    if (operand.kind == ptx::OperandKind::real) {
        if (type == Type::f16 || type == Type::bf16)
            fail("a half-precision immediate is written in hexadecimal");
        const bool as_float = type == Type::f32 || type == Type::f64;
        return immediate(width, as_float ? float_bits(operand.bits, operand.narrow, type) : operand.bits);
    }
    if (type == Type::f32 || type == Type::f64) {
        const double number = double(int64_t(operand.bits));
        uint64_t bits = 0;
        std::memcpy(&bits, &number, 8);
        return immediate(width, float_bits(bits, false, type));
    }
    return immediate(width, operand.bits);
}

uint32_t Selector::source(const ptx::Operand& operand, Type type, bool relaxed) {
    using Kind = ptx::OperandKind;
    if (type == Type::pred) return predicate_source(operand);
    if (type == Type::b128) unknown();
    switch (operand.kind) {
        case Kind::reg: {
            const Type declared = registers_[operand.reg];
            const unsigned have = ptx::traits(declared).bytes, want = ptx::traits(type).bytes;
            if (declared == Type::pred || declared == Type::b128 ||
                (have != want && !(relaxed && have > want))) {
                fail("register " + std::string(operand.name.substr(0, 80)) + " has " +
                     std::to_string(have * 8) + " bits where " + full_name() + " wants " +
                     std::to_string(want * 8));
            }
            if (operand.negated) fail("'!' wants a predicate");
            if (have == 8 && want < 8) {
                const uint32_t low = new_value(Width::narrow);
                emit("part0.b64.b32"_op, low, operand.reg);
                return low;
            }
            return operand.reg;
        }
        case Kind::integer:
        case Kind::real:
            return literal(operand, type);
        case Kind::special:
            return special(operand.name, type);
        case Kind::symbol: {
            const uint32_t address = symbol_address(operand);
            if (ptx::traits(type).bytes == 8) return address;
            if (ptx::traits(type).bytes != 4) fail("an address needs 32 or 64 bits");
            SlotInit narrow = body_.values[address].init;
            narrow.wide = false;
            return constant(narrow);
        }
        default:
            fail("an operand of " + full_name() + " is of the wrong kind");
    }
}

uint32_t Selector::predicate_source(const ptx::Operand& operand) {
    const bool clusters = operand.kind == ptx::OperandKind::special && operand.name == "%is_explicit_cluster";
    if (operand.kind == ptx::OperandKind::integer || clusters) {
        const uint32_t zero = immediate(Width::narrow, operand.bits ? 1 : 0);
        const uint32_t p = new_value(Width::predicate);
        emit("setp.ne.b32"_op, p, zero, immediate(Width::narrow, 0));
        return p;
    }
    if (operand.kind != ptx::OperandKind::reg || registers_[operand.reg] != Type::pred) {
        fail("a predicate expected in " + full_name());
    }
    if (!operand.negated) return operand.reg;
    const uint32_t inverted = new_value(Width::predicate);
    emit("not.pred"_op, inverted, operand.reg);
    return inverted;
}

uint32_t Selector::dest(const ptx::Operand& operand, Type type, bool relaxed) {
    if (type == Type::b128) unknown();
    if (operand.kind == ptx::OperandKind::sink) return new_value(width_of(type));
    if (operand.kind != ptx::OperandKind::reg || operand.negated)
        fail("the result of " + full_name() + " wants a register");
    const Type declared = registers_[operand.reg];
    const unsigned have = ptx::traits(declared).bytes, want = ptx::traits(type).bytes;
    if ((declared == Type::pred) != (type == Type::pred) || declared == Type::b128 ||
        (have != want && !(relaxed && have > want))) {
        fail("register " + std::string(operand.name.substr(0, 80)) + " has " + std::to_string(have * 8) +
             " bits where " + full_name() + " gives " + std::to_string(want * 8));
    }
    if (have == 8 && want < 8) {
        const uint32_t narrow = new_value(Width::narrow);
        pending_.push_back({narrow, operand.reg, type});
        return narrow;
    }
    return operand.reg;
}

// A result narrower than its register: extended by the sign that its type has.
void Selector::finish_dests() {
    for (size_t i = 0; i < pending_.size(); ++i) {
        const PendingDest pending = pending_[i];
        emit(is_signed(pending.type) ? "cvt.s64.s32"_op : "cvt.u64.u32"_op, pending.wide, pending.narrow);
    }
    pending_.clear();
}

}  // namespace softgpu::lower
