// The forms of instructions.txt as data, and which of them an instruction has.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "instructions/code.h"
#include "ptx/syntax.h"

namespace softgpu::instructions {

constexpr size_t kMaxGroups = 16;  // of a form
constexpr uint8_t kFixed = 0xff;

// A place for a modifier. Choices are counted from 1; 0 is none.
struct Group {
    uint16_t first, count;  // of kAlternatives
    bool optional;
    bool is_type;  // one of the last modifiers, told apart by their places
    bool open;     // takes whatever begins as its alternative does, any number of times
};

// What a generic form reads or writes. `group` kFixed: of `type`; else of the type that the group has.
struct OperandForm {
    uint8_t field;  // of an Inst, or kNumber
    uint8_t group;
    ptx::Type type;
    bool doubled;
    bool relaxed;
};
constexpr uint8_t kNumber = 0xfe;

// What a handler depends on. `group` kFixed: the pick chooses.
struct Axis {
    uint8_t group;
    uint8_t count;
};

// Who lowers a form; `generic` is by its operands alone.
enum class Pick : uint8_t {
    generic,
#include "picks.inc"
};

struct Form {
    std::string_view mnemonic;
    uint16_t first_group, groups;
    uint16_t first_operand, operands;
    uint16_t first_axis, axes;
    uint32_t first_code;
    Pick pick;
    bool waits;    // lanes may wait for each other in it, or end: a guard becomes a branch around it
    bool crosses;  // lanes or operands do not go elementwise
};

// A form, and which alternative of each group an instruction has.
struct Match {
    const Form* form = nullptr;
    std::array<uint8_t, kMaxGroups> chosen{};

    explicit operator bool() const { return form != nullptr; }
    // The handler, `own` being the pick's choices in their order. kNoCode when the form names none.
    Code code(std::initializer_list<unsigned> own = {}) const;
    ptx::Type type(const OperandForm& operand) const;
};

// The first form that takes all the modifiers. None: the instruction is not supported.
Match match(std::string_view mnemonic, std::span<const std::string_view> modifiers);
std::span<const OperandForm> operands(const Form& form);

}  // namespace softgpu::instructions
