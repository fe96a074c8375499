#include "instructions/form.h"

#include <unordered_map>

namespace softgpu::instructions {
namespace {

struct Alternative {
    uint16_t word;   // of kWords
    ptx::Type type;  // none when it is no type of the engine's
};

#include "forms.inc"

constexpr uint16_t kOther = UINT16_MAX;

const std::unordered_map<std::string_view, uint16_t>& words() {
    static const auto* all = [] {
        auto* made = new std::unordered_map<std::string_view, uint16_t>;
        for (size_t i = 0; i < std::size(kWords); ++i) made->emplace(kWords[i], uint16_t(i));
        return made;
    }();
    return *all;
}

struct Range {
    const Form* begin;
    const Form* end;
};
const std::unordered_map<std::string_view, Range>& forms() {
    static const auto* all = [] {
        auto* made = new std::unordered_map<std::string_view, Range>;
        for (const Form& form : kForms) {
            Range& range = made->try_emplace(form.mnemonic, Range{&form, &form}).first->second;
            range.end = &form + 1;
        }
        return made;
    }();
    return *all;
}

struct Modifier {
    std::string_view text;
    uint16_t word;
};

// The choice, or 0.
uint8_t find(const Group& group, const Modifier& modifier) {
    for (uint16_t i = 0; i < group.count; ++i) {
        const uint16_t word = kAlternatives[group.first + i].word;
        if (word == modifier.word) return uint8_t(i + 1);
        if (!group.open) continue;
        std::string_view start = kWords[word];
        start.remove_suffix(1);  // the '*'
        if (modifier.text.starts_with(start)) return uint8_t(i + 1);
    }
    return 0;
}

bool takes(const Form& form, std::span<const Modifier> modifiers, Match& match) {
    const Group* groups = kGroups + form.first_group;
    size_t last = form.groups, end = modifiers.size();
    for (; last > 0 && groups[last - 1].is_type; --last, --end) {
        if (end == 0) return false;
        match.chosen[last - 1] = find(groups[last - 1], modifiers[end - 1]);
        if (match.chosen[last - 1] == 0) return false;
    }
    for (size_t i = 0; i < end; ++i) {
        bool taken = false;
        for (size_t g = 0; g < last && !taken; ++g) {
            if (match.chosen[g] != 0 && !groups[g].open) continue;
            const uint8_t choice = find(groups[g], modifiers[i]);
            if (choice == 0) continue;
            match.chosen[g] = choice;
            taken = true;
        }
        if (!taken) return false;
    }
    for (size_t g = 0; g < last; ++g) {
        if (match.chosen[g] == 0 && !groups[g].optional) return false;
    }
    match.form = &form;
    return true;
}

}  // namespace

Match match(std::string_view mnemonic, std::span<const std::string_view> modifiers) {
    const auto range = forms().find(mnemonic);
    if (range == forms().end()) return {};
    constexpr size_t kMost = 32;  // no form takes as many
    Modifier given[kMost];
    if (modifiers.size() > kMost) return {};
    for (size_t i = 0; i < modifiers.size(); ++i) {
        const auto word = words().find(modifiers[i]);
        given[i] = {modifiers[i], word == words().end() ? kOther : word->second};
    }
    for (const Form* form = range->second.begin; form != range->second.end; ++form) {
        Match found;
        if (takes(*form, {given, modifiers.size()}, found)) return found;
    }
    return {};
}

Code Match::code(std::initializer_list<unsigned> own) const {
    if (form->first_code == UINT32_MAX) return kNoCode;
    size_t at = 0;
    auto next = own.begin();
    for (uint16_t i = 0; i < form->axes; ++i) {
        const Axis& axis = kAxes[form->first_axis + i];
        unsigned choice = 0;
        if (axis.group == kFixed) {
            if (next != own.end()) choice = *next++;
        } else {
            choice = chosen[axis.group] - (kGroups[form->first_group + axis.group].optional ? 0u : 1u);
        }
        at = at * axis.count + choice;
    }
    return Code(kFormCodes[form->first_code + at]);
}

ptx::Type Match::type(const OperandForm& operand) const {
    ptx::Type type = operand.type;
    if (operand.group != kFixed) {
        const Group& group = kGroups[form->first_group + operand.group];
        type = kAlternatives[group.first + chosen[operand.group] - 1].type;
    }
    if (!operand.doubled) return type;
    return ptx::traits(type).bytes == 2 ? ptx::Type::b32 : ptx::Type::b64;
}

std::span<const OperandForm> operands(const Form& form) {
    return {kOperands + form.first_operand, form.operands};
}

}  // namespace softgpu::instructions
