// Function bodies: registers, labels, instructions and their operands.
#include <charconv>

#include "ptx/parser.h"

namespace softgpu::ptx {
namespace {

constexpr size_t kMaxInstructions = 2u << 20;
constexpr size_t kMaxRegisters = 1u << 20;
constexpr size_t kMaxOperands = 256;
constexpr size_t kMaxScopes = 1u << 18;
constexpr unsigned kMaxDepth = 128;

bool is_call(std::string_view opcode) {
    return opcode == "call";
}
bool takes_label(std::string_view opcode) {
    return opcode == "bra" || opcode == "brx";
}
bool takes_coordinates(std::string_view opcode) {
    return opcode == "tex" || opcode == "tld4" || opcode == "suld" || opcode == "sust" || opcode == "sured";
}

}  // namespace

void Parser::body(Function& function) {
    expect('{', "before a function's body");
    function_ = &function;
    scopes_.clear();
    references_.clear();
    scopes_.push_back(Scope{kNone, {}, {}, {}, {}});
    scope_ = 0;
    for (auto* list : {&function.returns, &function.params}) {
        for (const Variable& variable : *list) {
            if (variable.space == Space::none)
                scopes_[0].registers[variable.name] = new_register(variable.type);
        }
    }
    unsigned depth = 1;
    while (depth > 0) {
        if (token_.kind == TokenKind::end) fail("a function's body that does not end");
        if (take('{')) {
            if (++depth > kMaxDepth || scopes_.size() > kMaxScopes) fail("blocks nested too deeply");
            scopes_.push_back(Scope{scope_, {}, {}, {}, {}});
            scope_ = uint32_t(scopes_.size() - 1);
        } else if (take('}')) {
            if (--depth > 0) scope_ = scopes_[scope_].parent;
        } else {
            statement();
        }
    }
    resolve_labels();
    function_ = nullptr;
}

void Parser::statement() {
    if (take(';')) return;
    if (token_.kind == TokenKind::dotted) return body_directive();
    if (token_.kind == TokenKind::word && ahead_.is(':')) {
        const std::string_view name = token_.text;
        const unsigned line = token_.line, column = token_.column;
        advance(), advance();
        if (take_dotted("branchtargets")) return branch_targets(name);
        if (take_dotted("callprototype")) return call_prototype(name);
        if (take_dotted("calltargets")) return skip_to(';', "after .calltargets");
        if (!scopes_[scope_].labels.emplace(name, uint32_t(function_->labels.size())).second) {
            throw Error(line, "label " + std::string(name.substr(0, 80)) + " stands here twice", column);
        }
        function_->labels.push_back(Label{name, uint32_t(function_->code.size()), line, scope_});
        return;
    }
    instruction();
}

void Parser::body_directive() {
    if (take_dotted("reg")) return registers();
    if (take_dotted("local"))
        return declarations(Linkage::internal, Space::local, function_->variables, scope_);
    if (take_dotted("shared"))
        return declarations(Linkage::internal, Space::shared, function_->variables, scope_);
    if (take_dotted("param"))
        return declarations(Linkage::internal, Space::param, function_->variables, scope_);
    if (take_dotted("global"))
        return declarations(Linkage::internal, Space::global, function_->variables, scope_);
    if (take_dotted("const"))
        return declarations(Linkage::internal, Space::constant, function_->variables, scope_);
    if (token_.is_dotted("loc") || token_.is_dotted("file")) return debug_line();
    if (take_dotted("pragma")) return skip_to(';', "after .pragma");
    fail("unknown directive ." + std::string(token_.text.substr(0, 80)));
}

void Parser::registers() {
    if (token_.kind == TokenKind::dotted && (token_.text == "v2" || token_.text == "v4")) {
        fail("vector registers are not supported");
    }
    if (token_.kind != TokenKind::dotted) fail("a register's type expected");
    const Type type = type_named(token_.text);
    if (type == Type::none) fail("unknown type ." + std::string(token_.text.substr(0, 80)));
    advance();
    do {
        const std::string_view name = expect_word("a register's name");
        if (take('<')) {
            const uint64_t count = expect_integer("a number of registers");
            expect('>', "after a number of registers");
            scopes_[scope_].ranges[name] = Range{uint32_t(std::min<uint64_t>(count, UINT32_MAX)), type, {}};
        } else {
            scopes_[scope_].registers[name] = new_register(type);
        }
    } while (take(','));
    expect(';', "after registers");
}

uint32_t Parser::new_register(Type type) {
    if (function_->registers.size() >= kMaxRegisters) fail("more than 1048576 registers in a function");
    function_->registers.push_back(type);
    return uint32_t(function_->registers.size() - 1);
}

// A register of a declared range is made when it is first named, so that %r<2000000000> costs nothing.
uint32_t Parser::find_register(std::string_view name) {
    size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    uint32_t number = 0;
    const bool numbered =
        digits < name.size() && name.size() - digits <= 10 &&
        std::from_chars(name.data() + digits, name.data() + name.size(), number).ec == std::errc{};
    for (uint32_t scope = scope_; scope != kNone; scope = scopes_[scope].parent) {
        const auto known = scopes_[scope].registers.find(name);
        if (known != scopes_[scope].registers.end()) return known->second;
        if (!numbered) continue;
        const auto range = scopes_[scope].ranges.find(name.substr(0, digits));
        if (range == scopes_[scope].ranges.end() || number >= range->second.count) continue;
        const auto used = range->second.used.find(number);
        if (used != range->second.used.end()) return used->second;
        return range->second.used[number] = new_register(range->second.type);
    }
    return kNone;
}

uint32_t Parser::find_variable(std::string_view name) const {
    for (uint32_t scope = scope_; scope != kNone; scope = scopes_[scope].parent) {
        const auto known = scopes_[scope].variables.find(name);
        if (known != scopes_[scope].variables.end()) return known->second;
    }
    return kNone;
}

void Parser::branch_targets(std::string_view name) {
    BranchTable table{name, {}};
    do {
        if (table.targets.size() >= 65536) fail("more than 65536 branch targets");
        table.targets.push_back(expect_word("a label"));
    } while (take(','));
    expect(';', "after .branchtargets");
    function_->tables.push_back(std::move(table));
}

void Parser::call_prototype(std::string_view name) {
    Function prototype;
    prototype.line = token_.line;
    prototype.returns = parameters();
    expect_word("_ or a name");
    prototype.params = parameters();
    while (token_.kind == TokenKind::dotted) advance();  // .noreturn
    prototype.name = name;
    expect(';', "after .callprototype");
    function_->prototypes.push_back(std::move(prototype));
}

void Parser::instruction() {
    if (function_->code.size() >= kMaxInstructions) fail("more than 2097152 instructions in a function");
    Instruction instruction;
    instruction.line = token_.line;
    if (take('@')) {
        instruction.guard_negated = take('!');
        const std::string_view name = expect_word("a predicate");
        instruction.guard = find_register(name);
        if (instruction.guard == kNone || function_->registers[instruction.guard] != Type::pred) {
            fail(std::string(name.substr(0, 80)) + " is no predicate");
        }
    }
    instruction.line = token_.line;
    instruction.column = token_.column;
    instruction.opcode = expect_word("an instruction");
    while (token_.kind == TokenKind::dotted) {
        if (instruction.mods.size() >= 32) fail("more than 32 modifiers");
        instruction.mods.push_back(token_.text);
        advance();
    }
    if (is_call(instruction.opcode)) {
        call_operands(instruction);
    } else if (!token_.is(';')) {
        const bool label = takes_label(instruction.opcode), texture = takes_coordinates(instruction.opcode);
        do {
            if (instruction.operands.size() >= kMaxOperands) fail("too many operands");
            instruction.operands.push_back(texture ? texture_operand() : operand(label));
            if (instruction.operands.back().kind == OperandKind::label) {
                references_.push_back({instruction.operands.back().name, scope_, instruction.line,
                                       instruction.column, uint32_t(function_->code.size()),
                                       uint32_t(instruction.operands.size() - 1)});
            }
        } while (take(','));
    }
    expect(';', "after an instruction");
    function_->code.push_back(std::move(instruction));
}

// call (ret), f, (args), proto;   call f;   call f, (args);
void Parser::call_operands(Instruction& instruction) {
    auto list = [this](std::vector<Operand>& into) {
        if (take(')')) return;
        do {
            if (into.size() >= kMaxOperands) fail("too many operands");
            into.push_back(operand(false));
        } while (take(','));
        expect(')', "after a call's operands");
    };
    if (take('(')) {
        list(instruction.returns);
        expect(',', "after a call's return values");
    }
    instruction.operands.push_back(operand(false));
    if (!take(',')) return;
    if (take('(')) {
        list(instruction.arguments);
        if (!take(',')) return;
    }
    Operand prototype;
    prototype.kind = OperandKind::symbol;
    prototype.name = expect_word("a prototype");
    instruction.operands.push_back(prototype);
}

Operand Parser::operand(bool label) {
    if (take('!')) {
        if (token_.kind != TokenKind::word) fail("'!' wants a predicate");
        Operand inner = named_operand(false);
        if (inner.kind != OperandKind::reg) fail("'!' wants a predicate");
        inner.negated = true;
        return inner;
    }
    if (take('[')) return address();
    if (take('{')) return vector_operand();
    if (token_.kind == TokenKind::word) return named_operand(label);
    return expression();
}

Operand Parser::vector_operand() {
    Operand vector;
    vector.kind = OperandKind::vector;
    do {
        if (vector.parts.size() >= 8) fail("a vector of more than 8 parts");
        if (token_.is('{') || token_.is('[')) fail("a vector in a vector");
        vector.parts.push_back(operand(false));
    } while (take(','));
    expect('}', "after a vector");
    return vector;
}

void Parser::symbol_offset(Operand& operand) {
    while (token_.is('+') || token_.is('-')) {
        bool minus = token_.is('-');
        advance();
        if (take('-')) minus = !minus;
        const uint64_t offset = expect_integer("an offset");
        operand.bits += minus ? 0 - offset : offset;
    }
}

Operand Parser::named_operand(bool label) {
    Operand named;
    named.name = token_.text;
    advance();
    const bool sink = named.name == "_";
    if (sink && !token_.is('|')) return named;
    if (!sink) named.reg = find_register(named.name);
    if (sink || named.reg != kNone) {
        named.kind = OperandKind::reg;
        if (token_.kind == TokenKind::dotted) {
            named.part = token_.text;
            advance();
        }
        if (take('|')) {
            named.kind = OperandKind::pair;
            const std::string_view second = expect_word("a second destination");
            if (second != "_") {
                named.second = find_register(second);
                if (named.second == kNone) fail(std::string(second.substr(0, 80)) + " is no register");
            }
        }
        return named;
    }
    if (named.name[0] == '%') {
        named.kind = OperandKind::special;
        if (token_.kind == TokenKind::dotted) {  // %tid.x: one name
            const char* end = token_.text.data() + token_.text.size();
            named.name = std::string_view(named.name.data(), size_t(end - named.name.data()));
            advance();
        }
        return named;
    }
    if (named.name == "WARP_SZ") {
        named.kind = OperandKind::integer;
        named.bits = 32;
        return named;
    }
    if (label) {
        named.kind = OperandKind::label;
        return named;
    }
    named.kind = OperandKind::symbol;
    named.variable = find_variable(named.name);
    symbol_offset(named);
    return named;
}

// {a, b, c, d}|p and [texture, {coordinates}], or [texture, sampler, {coordinates}].
Operand Parser::texture_operand() {
    if (take('[')) return address(true);
    if (!take('{')) return operand(false);
    Operand vector = vector_operand();
    if (take('|')) {
        const std::string_view second = expect_word("a second destination");
        vector.second = find_register(second);
        if (vector.second == kNone) fail(std::string(second.substr(0, 80)) + " is no register");
    }
    return vector;
}

Operand Parser::address(bool coordinates) {
    Operand base;
    if (token_.kind == TokenKind::word) {
        base = named_operand(false);
        if (base.kind != OperandKind::reg && base.kind != OperandKind::symbol) {
            fail("unknown address " + std::string(base.name.substr(0, 80)));
        }
        symbol_offset(base);
    } else {
        base = number_operand();
        if (base.kind != OperandKind::integer) fail("an address expected");
    }
    base.kind = OperandKind::address;
    while (coordinates && take(',')) {
        if (base.parts.size() >= 2) fail("too many coordinates");
        base.parts.push_back(operand(false));
    }
    expect(']', "after an address");
    return base;
}

uint32_t Parser::find_label(const Reference& reference) const {
    for (uint32_t at = reference.scope; at != kNone; at = scopes_[at].parent) {
        const auto known = scopes_[at].labels.find(reference.name);
        if (known != scopes_[at].labels.end()) return known->second;
    }
    throw Error(reference.line, "unknown label " + std::string(reference.name.substr(0, 80)),
                reference.column);
}

// A branch's label becomes the index of its entry in Function::labels. A table's name stays a name.
void Parser::resolve_labels() {
    for (const Reference& reference : references_) {
        Operand& operand = function_->code[reference.instruction].operands[reference.operand];
        const bool table = reference.operand == 1 && function_->code[reference.instruction].opcode == "brx";
        if (!table) operand.reg = find_label(reference);
    }
}

}  // namespace softgpu::ptx
