// Where a function's parameters and variables are, and what their addresses are.
#include <algorithm>

#include "lower/select.h"

namespace softgpu::lower {
namespace {

constexpr uint64_t kMaxLocalBytes = Limits::local_bytes;

}  // namespace

const ptx::Variable* Selector::variable_of(const ptx::Operand& operand) const {
    if (operand.variable != ptx::kNone) return &source_.variables[operand.variable];
    const auto param = param_index_.find(operand.name);
    if (param == param_index_.end() || operand.reg != ptx::kNone) return nullptr;
    const size_t returns = source_.returns.size();
    return param->second < returns ? &source_.returns[param->second]
                                   : &source_.params[param->second - returns];
}

const Storage* Selector::storage_of(const ptx::Operand& operand) const {
    if (operand.variable != ptx::kNone) {
        const Storage& storage = variable_storage_[operand.variable];
        return storage.bytes == 0 && storage.value == kNoValue ? nullptr : &storage;
    }
    const auto param = param_index_.find(operand.name);
    if (param == param_index_.end() || operand.reg != ptx::kNone || source_.kernel) return nullptr;
    return &param_storage_[param->second];
}

// A scalar .param variable lives in a register when every access is to the whole of it.
bool Selector::promotable(const ptx::Variable& variable) const {
    const unsigned bytes = ptx::traits(variable.type).bytes;
    return !variable.array && variable.vector == 1 && bytes <= 8 && !in_memory_.contains(&variable);
}

void Selector::find_variables_in_memory() {
    for (const ptx::Instruction& instruction : source_.code) {
        for (const ptx::Operand& operand : instruction.operands) {
            if (operand.kind != ptx::OperandKind::address && operand.kind != ptx::OperandKind::symbol)
                continue;
            const ptx::Variable* variable = variable_of(operand);
            if (variable == nullptr) continue;
            const Type type =
                instruction.mods.empty() ? Type::none : ptx::type_named(instruction.mods.back());
            const bool whole = operand.kind == ptx::OperandKind::address && operand.bits == 0 &&
                               ptx::traits(type).bytes == ptx::traits(variable->type).bytes;
            const bool vector =
                std::find_if(instruction.mods.begin(), instruction.mods.end(), [](auto modifier) {
                    return modifier == "v2" || modifier == "v4";
                }) != instruction.mods.end();
            const bool plain = instruction.opcode == "ld" || instruction.opcode == "st";
            if (!whole || vector || !plain) in_memory_.insert(variable);
        }
    }
}

void Selector::place_storage() {
    auto local = [this](const ptx::Variable& variable) {
        Storage storage;
        storage.bytes = uint32_t(std::min<uint64_t>(variable.bytes, kMaxLocalBytes));
        const uint64_t at =
            (uint64_t(body_.local_bytes) + variable.align - 1) / variable.align * variable.align;
        if (variable.bytes > kMaxLocalBytes || at + variable.bytes > kMaxLocalBytes) {
            throw ptx::Error(variable.line,
                             "more than " + std::to_string(kMaxLocalBytes) + " bytes of local memory");
        }
        storage.local_offset = uint32_t(at);
        body_.local_bytes = uint32_t(at + variable.bytes);
        if (storage.bytes == 0) storage.bytes = 1;
        return storage;
    };
    size_t number = 0;
    for (const auto* list : {&source_.returns, &source_.params}) {
        for (const ptx::Variable& variable : *list) param_index_.emplace(variable.name, number++);
    }
    find_variables_in_memory();
    number = 0;
    for (const auto* list : {&source_.returns, &source_.params}) {
        for (const ptx::Variable& variable : *list) {
            ++number;
            Storage storage;
            if (source_.kernel) {
                storage.bytes = 1;
            } else if (variable.space == Space::none) {
                if (variable.type == Type::b128)
                    throw ptx::Error(variable.line, "a parameter in a register of 128 bits is not supported");
                // A .reg parameter is the register that the parser has made for it, in the same order.
                uint32_t reg = 0;
                for (size_t i = 0; i + 1 < number; ++i) {
                    const auto& before = i < source_.returns.size()
                                             ? source_.returns[i]
                                             : source_.params[i - source_.returns.size()];
                    reg += before.space == Space::none;
                }
                storage.value = reg;
                storage.bytes = uint32_t(variable.bytes);
            } else if (promotable(variable)) {
                storage.value = new_value(width_of(variable.type));
                storage.bytes = uint32_t(variable.bytes);
            } else {
                storage = local(variable);
            }
            param_storage_.push_back(storage);
        }
    }
    for (size_t i = 0; i < source_.variables.size(); ++i) {
        const ptx::Variable& variable = source_.variables[i];
        Storage storage;
        Symbol symbol;
        if (variable.space == Space::param) {
            if (promotable(variable)) {
                storage.value = new_value(width_of(variable.type));
                storage.bytes = uint32_t(variable.bytes);
            } else {
                storage = local(variable);
            }
        } else if (variable.space == Space::local) {
            storage = local(variable);
        } else {
            symbol = symbols_.place(variable, image_);
        }
        variable_storage_.push_back(storage);
        variable_symbols_.push_back(symbol);
    }
}

// The address of a symbol as a value of 64 bits, in its own space for shared and local memory.
uint32_t Selector::symbol_address(const ptx::Operand& operand) {
    SlotInit init;
    init.wide = true;
    init.value = operand.bits;
    if (const Storage* storage = storage_of(operand)) {
        if (storage->value != kNoValue) fail(std::string(operand.name.substr(0, 80)) + " has no address");
        init.kind = SlotInit::Kind::local;
        init.value += storage->local_offset;
        return constant(init);
    }
    if (operand.variable == ptx::kNone && source_.kernel && param_index_.contains(operand.name)) {
        init.value += Windows::param + target_.params[param_index_[operand.name]].offset;
        return constant(init);
    }
    Symbol symbol;
    if (operand.variable != ptx::kNone) {
        symbol = variable_symbols_[operand.variable];
    } else {
        const auto found = symbols_.find(module_, operand.name);
        if (!found) undefined("undefined symbol " + std::string(operand.name.substr(0, 200)));
        symbol = *found;
    }
    init.index = symbol.index;
    switch (symbol.kind) {
        case Symbol::Kind::global:
            init.kind = SlotInit::Kind::global;
            break;
        case Symbol::Kind::shared:
            init.kind = SlotInit::Kind::shared;
            target_.shared_used.push_back(symbol.index);
            break;
        default:
            init.kind = SlotInit::Kind::immediate;
            init.value += Windows::function + symbol.index;
            init.index = 0;
            // A kernel that is launched has registers, stack and shared memory of its own.
            (image_.functions[symbol.index].kernel ? target_.launches : target_.calls)
                .push_back(symbol.index);
            break;
    }
    return constant(init);
}

Place Selector::place_of(const Storage& storage, Inst& inst, bool written) {
    Place place;
    place.bytes = storage.bytes;
    if (storage.value == kNoValue) {
        place.local = true;
        place.offset = storage.local_offset;
    } else {
        place.offset = storage.value;  // becomes a slot when slots are known
        (written ? inst.extra_defs : inst.extra_uses).push_back(storage.value);
    }
    return place;
}

}  // namespace softgpu::lower
