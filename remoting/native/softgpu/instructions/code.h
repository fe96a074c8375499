// Handlers by number: what lower/ works with, and what an op's function is looked up by. The numbers follow
// from instructions.txt; a name is for people, and for the handlers' own tables.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace softgpu {

enum class Code : uint16_t {};
constexpr Code kNoCode = Code(UINT16_MAX);

// In order, so that a name's number is its place.
inline constexpr std::string_view kHandlerNames[] = {
#include "handler_names.inc"
};
constexpr size_t kCodes = std::size(kHandlerNames);
static_assert(kCodes < UINT16_MAX);

// kNoCode when no handler of the table has the name.
constexpr Code code_named(std::string_view name) {
    const auto found = std::lower_bound(std::begin(kHandlerNames), std::end(kHandlerNames), name);
    const bool there = found != std::end(kHandlerNames) && *found == name;
    return there ? Code(found - std::begin(kHandlerNames)) : kNoCode;
}
constexpr std::string_view name_of(Code code) {
    return code == kNoCode ? std::string_view("none") : kHandlerNames[size_t(code)];
}

// "add.b32"_op: a name that the table does not have stops the build.
consteval Code operator""_op(const char* text, size_t length) {
    const Code code = code_named({text, length});
    if (code == kNoCode) throw "no handler has this name";
    return code;
}

}  // namespace softgpu
