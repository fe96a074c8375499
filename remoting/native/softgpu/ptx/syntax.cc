#include "ptx/syntax.h"

#include <array>

#include "ptx/error.h"

namespace softgpu::ptx {
namespace {

constexpr std::array<TypeTraits, 23> kTypes{{
    {"", 0},      {"pred", 0},  {"b8", 1},     {"b16", 2},   {"b32", 4},   {"b64", 8},
    {"b128", 16}, {"u8", 1},    {"u16", 2},    {"u32", 4},   {"u64", 8},   {"s8", 1},
    {"s16", 2},   {"s32", 4},   {"s64", 8},    {"u16x2", 4}, {"s16x2", 4}, {"f16", 2},
    {"bf16", 2},  {"f16x2", 4}, {"bf16x2", 4}, {"f32", 4},   {"f64", 8},
}};

}  // namespace

const TypeTraits& traits(Type type) {
    return kTypes[static_cast<size_t>(type)];
}

Type type_named(std::string_view name) {
    for (size_t i = 1; i < kTypes.size(); ++i) {
        if (kTypes[i].name == name) return static_cast<Type>(i);
    }
    return Type::none;
}

std::string describe(const Error& error, std::string_view input) {
    if (error.line == 0) return "ptxas fatal   : " + std::string(error.what());
    std::string text = "ptxas " + std::string(input.empty() ? "PTX" : input) + ", line " +
                       std::to_string(error.line) + "; error   : " + error.what();
    if (error.column != 0) text += " (column " + std::to_string(error.column) + ")";
    return text;
}

}  // namespace softgpu::ptx
