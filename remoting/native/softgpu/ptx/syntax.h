// What a PTX text says, before any meaning is given to instructions. Names are views into the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softgpu::ptx {

enum class Type : uint8_t {
    none,
    pred,
    b8,
    b16,
    b32,
    b64,
    b128,
    u8,
    u16,
    u32,
    u64,
    s8,
    s16,
    s32,
    s64,
    u16x2,
    s16x2,
    f16,
    bf16,
    f16x2,
    bf16x2,
    f32,
    f64
};

struct TypeTraits {
    std::string_view name;
    uint8_t bytes;  // 0 for predicates
};
const TypeTraits& traits(Type type);
Type type_named(std::string_view name);  // Type::none when it is no type

enum class Space : uint8_t { none, global, constant, shared, local, param };

constexpr uint32_t kNone = UINT32_MAX;

// A value that an address stands in for: bytes at `offset` of the initialiser hold symbol + addend.
struct Relocation {
    uint64_t offset = 0;
    std::string_view symbol;
    int64_t addend = 0;
    uint8_t bytes = 8;
    bool generic = false;  // generic(sym)
    unsigned line = 0;
};

enum class Linkage : uint8_t { internal, visible, weak, common, external };

struct Variable {
    std::string_view name;
    Space space = Space::none;
    Type type = Type::b8;
    Linkage linkage = Linkage::internal;
    uint8_t vector = 1;  // .v2, .v4
    bool array = false;
    bool unsized = false;  // name[]
    bool opaque = false;   // .texref, .samplerref, .surfref
    uint64_t bytes = 0;
    uint32_t align = 1;
    std::vector<uint8_t> initial;  // the rest is zero
    std::vector<Relocation> relocations;
    unsigned line = 0;
};

enum class OperandKind : uint8_t { reg, special, integer, real, symbol, address, vector, pair, sink, label };

struct Operand {
    OperandKind kind = OperandKind::sink;
    bool negated = false;        // !p
    bool minus = false;          // -%r, of video instructions
    bool narrow = false;         // real: written as 0f...
    uint32_t reg = kNone;        // reg, address (base), pair (first): index in Function::registers
    uint32_t second = kNone;     // pair: p|q; vector of a texture instruction: {...}|p
    uint32_t variable = kNone;   // symbol, address: a function's own variable
    uint64_t bits = 0;           // integer, real (as a double unless narrow), address and symbol (offset)
    std::string_view name;       // special, symbol, address (symbol base), label
    std::string_view part;       // reg of a video instruction: "b0", "h1", "h10", "b3210"
    std::vector<Operand> parts;  // vector; address of a texture instruction: the coordinates
};

struct Instruction {
    unsigned line = 0, column = 0;
    std::string_view opcode;             // "ld"
    std::vector<std::string_view> mods;  // "global", "f32"
    uint32_t guard = kNone;
    bool guard_negated = false;
    std::vector<Operand> operands;
    // call: (returns), callee, (arguments), prototype
    std::vector<Operand> returns, arguments;
};

struct Label {
    std::string_view name;
    uint32_t at = 0;  // index of the instruction that follows
    unsigned line = 0;
    uint32_t scope = 0;
};

struct BranchTable {
    std::string_view name;
    std::vector<std::string_view> targets;
};

// Instructions from this line of the PTX on come from a line of a source file.
struct SourcePlace {
    uint32_t ptx_line = 0, file = 0, line = 0;
    uint32_t caller_file = 0, caller_line = 0;  // of an inlined function; 0 if it is none
};

struct Function {
    std::string_view name;
    Linkage linkage = Linkage::internal;
    bool kernel = false;
    std::string_view body;  // from its '{' to the '}' that ends it; empty for a declaration
    unsigned body_line = 0, body_column = 0;
    unsigned line = 0;
    uint32_t max_threads = 0;
    uint32_t max_registers = 0;  // .maxnreg, 0 when absent
    uint32_t required[3] = {0, 0, 0};
    std::vector<Variable> returns, params;
    // From here on of the body, once it has been read:
    std::vector<Type> registers;
    std::vector<Variable> variables;  // of the body: .local, .shared, .param and the rest
    std::vector<Instruction> code;
    std::vector<Label> labels;
    std::vector<BranchTable> tables;
    std::vector<Function> prototypes;  // .callprototype: name, returns, params
    std::vector<SourcePlace> places;

    bool has_body() const { return !body.empty(); }
};

struct Module {
    std::string_view name;
    uint32_t version = 0, target = 0;
    uint32_t max_registers = 0;  // of a link of which this is a part, 0 where it has no limit
    std::vector<Variable> variables;
    std::vector<Function> functions;
    std::vector<std::pair<std::string_view, std::string_view>> aliases;
    std::vector<std::pair<uint32_t, std::string_view>> files;  // .file: numbers and names
};

// A module, with the heads of its functions: what a body says takes many times its text, so bodies are read
// one at a time, when they are lowered. Throws Error.
Module parse(std::string_view name, std::string_view text);
// The function with what its body says. Throws Error.
Function with_body(const Function& head);

}  // namespace softgpu::ptx
