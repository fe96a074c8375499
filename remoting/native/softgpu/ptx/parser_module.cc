// The directives of a module: variables, functions' heads, initialisers.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "ptx/parser.h"

namespace softgpu::ptx {
namespace {

constexpr uint64_t kMaxVariableBytes = 1ull << 40;
constexpr uint64_t kMaxInitialBytes = 64u << 20;
constexpr size_t kMaxDeclarations = 1u << 20;
constexpr size_t kMaxParameters = 4096;
constexpr size_t kMaxFiles = 65536, kMaxPlaces = 1u << 20;

}  // namespace

Parser::Parser(std::string_view text, unsigned line, unsigned column)
    : text_(text), lexer_(text, line, column) {
    ahead_ = lexer_.next();
    advance();
}

void Parser::skip_to(char mark, const char* where) {
    while (token_.kind != TokenKind::end && !token_.is(mark) && !is_brace()) advance();
    expect(mark, where);
}

bool Parser::take(char punctuation) {
    if (!token_.is(punctuation)) return false;
    advance();
    return true;
}

bool Parser::take_dotted(std::string_view word) {
    if (!token_.is_dotted(word)) return false;
    advance();
    return true;
}

void Parser::expect(char punctuation, const char* where) {
    if (!take(punctuation)) {
        fail(
            std::string("'") + punctuation + "' expected " + where + ", found '" +
            (token_.kind == TokenKind::end ? "the end of the text" : std::string(token_.text.substr(0, 80))) +
            "'");
    }
}

std::string_view Parser::expect_word(const char* what) {
    if (token_.kind != TokenKind::word) fail(std::string(what) + " expected");
    const std::string_view text = token_.text;
    advance();
    return text;
}

uint64_t Parser::expect_integer(const char* what) {
    if (token_.kind != TokenKind::integer) fail(std::string(what) + " expected");
    const uint64_t bits = token_.bits;
    advance();
    return bits;
}

Module Parser::module(std::string_view name) {
    module_.name = name;
    while (token_.kind != TokenKind::end) module_directive();
    if (module_.version == 0) throw Error(1, "this is no PTX text: it has no .version");
    return std::move(module_);
}

void Parser::module_directive() {
    if (take(';')) return;
    if (token_.kind != TokenKind::dotted) {
        fail("a directive expected, found '" + std::string(token_.text.substr(0, 80)) + "'");
    }
    Linkage linkage = Linkage::internal;
    for (;;) {
        if (take_dotted("visible"))
            linkage = Linkage::visible;
        else if (take_dotted("extern"))
            linkage = Linkage::external;
        else if (take_dotted("weak"))
            linkage = Linkage::weak;
        else if (take_dotted("common"))
            linkage = Linkage::common;
        else
            break;
    }
    if (take_dotted("version")) return version();
    if (take_dotted("target")) return target();
    if (take_dotted("address_size")) {
        if (expect_integer("an address size") != 64) fail("only .address_size 64 is supported");
        return;
    }
    if (token_.is_dotted("file") || token_.is_dotted("loc")) return debug_line();
    if (take_dotted("section")) return skip_braces();
    if (take_dotted("pragma")) {
        link_option(token_.text);
        return skip_to(';', "after .pragma");
    }
    if (take_dotted("alias")) {
        const auto alias = expect_word("a name");
        expect(',', "after the alias");
        module_.aliases.emplace_back(alias, expect_word("a name"));
        return expect(';', "after .alias");
    }
    if (take_dotted("entry")) return function(linkage, true);
    if (take_dotted("func")) return function(linkage, false);
    if (take_dotted("global")) return declarations(linkage, Space::global, module_.variables, kNone);
    if (take_dotted("const")) return declarations(linkage, Space::constant, module_.variables, kNone);
    if (take_dotted("shared")) return declarations(linkage, Space::shared, module_.variables, kNone);
    fail("unknown directive ." + std::string(token_.text.substr(0, 80)));
}

// An option of a link, which travels with its texts; see softgpu/driver/image.h.
void Parser::link_option(std::string_view pragma) {
    constexpr std::string_view kLimit = "gpu-kernels max registers ";
    if (!pragma.starts_with(kLimit)) return;
    std::from_chars(pragma.data() + kLimit.size(), pragma.data() + pragma.size(), module_.max_registers);
}

void Parser::version() {
    // The lexer reads 8.5 as a decimal; the text says what was meant.
    if (token_.kind != TokenKind::decimal && token_.kind != TokenKind::integer) fail("a version expected");
    uint32_t parts[2] = {0, 0};
    int part = 0;
    for (const char c : token_.text) {
        if (c == '.' && part == 0)
            part = 1;
        else if (c >= '0' && c <= '9' && parts[part] < 1000)
            parts[part] = parts[part] * 10 + uint32_t(c - '0');
        else
            fail("a malformed version");
    }
    module_.version = std::max(1u, parts[0] * 10 + parts[1]);
    advance();
}

void Parser::target() {
    do {
        const std::string_view word = expect_word("a target");
        if (word.substr(0, 3) == "sm_") {
            uint32_t number = 0;
            for (size_t i = 3; i < word.size() && word[i] >= '0' && word[i] <= '9' && number < 10000; ++i) {
                number = number * 10 + uint32_t(word[i] - '0');
            }
            module_.target = number;
        }
    } while (take(','));
}

void Parser::skip_braces() {
    while (token_.kind != TokenKind::end && !token_.is('{')) advance();
    unsigned depth = 0;
    for (; token_.kind != TokenKind::end; advance()) {
        if (token_.is('{')) ++depth;
        if (token_.is('}') && --depth == 0) return advance();
    }
    fail("a section that does not end");
}

// .file number "name" and .loc file line column have no end mark: they go on for known parts, on one line. A
// .loc says where the instructions after it come from.
void Parser::debug_line() {
    const unsigned line = token_.line;
    const bool file = token_.is_dotted("file");
    // Of .loc: file, line and column, and those of the call where the function was inlined.
    uint64_t numbers[6] = {};
    size_t count = 0;
    std::string_view name;
    for (advance(); token_.kind != TokenKind::end && token_.line == line && !is_brace(); advance()) {
        if (token_.kind == TokenKind::integer && count < 6) numbers[count++] = token_.bits;
        if (token_.kind == TokenKind::string && name.empty()) name = token_.text;
    }
    if (file && module_.files.size() < kMaxFiles) module_.files.emplace_back(uint32_t(numbers[0]), name);
    if (!file && function_ != nullptr && count >= 2 && function_->places.size() < kMaxPlaces) {
        function_->places.push_back(
            {line, uint32_t(numbers[0]), uint32_t(numbers[1]), uint32_t(numbers[3]), uint32_t(numbers[4])});
    }
}

// [linkage] .space [.align n] [.vN] .type name[dims] [= init], more ;
void Parser::declarations(Linkage linkage, Space space, std::vector<Variable>& into, uint32_t scope) {
    Variable first = declaration(linkage, space);
    const uint32_t align = first.align;
    const Type type = first.type;
    const uint8_t vector = first.vector;
    for (Variable variable = std::move(first);;) {
        if (take('=')) initializer(variable);
        if (into.size() >= kMaxDeclarations) fail("too many variables");
        if (scope != kNone) scopes_[scope].variables[variable.name] = uint32_t(into.size());
        into.push_back(std::move(variable));
        if (!take(',')) break;
        variable = Variable{};
        variable.space = space, variable.linkage = linkage, variable.line = token_.line;
        variable.align = align, variable.type = type, variable.vector = vector;
        variable.name = expect_word("a variable's name");
        array_bounds(variable, vector);
    }
    expect(';', "after a variable");
}

Variable Parser::declaration(Linkage linkage, Space space) {
    Variable variable;
    variable.space = space;
    variable.linkage = linkage;
    variable.line = token_.line;
    bool aligned = false, typed = false;
    while (token_.kind == TokenKind::dotted) {
        if (take_dotted("align")) {
            const uint64_t align = expect_integer("an alignment");
            if (align == 0 || align > 4096 || (align & (align - 1)) != 0)
                fail("an alignment is a power of two up to 4096");
            variable.align = uint32_t(align), aligned = true;
        } else if (take_dotted("v2")) {
            variable.vector = 2;
        } else if (take_dotted("v4")) {
            variable.vector = 4;
        } else if (take_dotted("ptr")) {  // .ptr .space .align n: what a parameter points to
            while (token_.kind == TokenKind::dotted) {
                if (take_dotted("align"))
                    expect_integer("an alignment");
                else
                    advance();
            }
        } else if (token_.is_dotted("attribute")) {  // .attribute(.managed): host memory is one with ours
            advance();
            expect('(', "after .attribute");
            skip_to(')', "after an attribute");
        } else if (token_.text == "texref" || token_.text == "samplerref" || token_.text == "surfref") {
            variable.type = Type::b64, variable.opaque = typed = true;
            advance();
        } else {
            variable.type = type_named(token_.text);
            if (variable.type == Type::none || variable.type == Type::pred) {
                fail("type ." + std::string(token_.text.substr(0, 80)) + " cannot be stored in a variable");
            }
            typed = true;
            advance();
        }
    }
    if (!typed) fail("a variable's type expected");
    variable.name = expect_word("a variable's name");
    if (!aligned) variable.align = uint32_t(traits(variable.type).bytes) * variable.vector;
    if (token_.is('<')) fail("parameterised names are for registers");
    array_bounds(variable, variable.vector);
    return variable;
}

void Parser::array_bounds(Variable& variable, uint64_t elements) {
    while (take('[')) {
        variable.array = true;
        if (take(']')) {
            variable.unsized = true;
            continue;
        }
        const uint64_t count = expect_integer("an array's size");
        if (count != 0 && elements > kMaxVariableBytes / count) fail("an array of more than 2^40 bytes");
        elements *= count;
        expect(']', "after an array's size");
    }
    variable.bytes = variable.unsized ? 0 : elements * traits(variable.type).bytes;
    if (variable.bytes > kMaxVariableBytes) fail("an array of more than 2^40 bytes");
}

void Parser::initializer(Variable& variable) {
    if (variable.space != Space::global && variable.space != Space::constant) {
        fail("only .global and .const variables have initialisers");
    }
    uint64_t offset = 0;
    if (take('{'))
        initial_list(variable, offset, 1);
    else
        initial_value(variable, offset);
    if (variable.unsized) {
        variable.unsized = false;
        variable.bytes = offset;
    }
    if (offset > variable.bytes) fail("an initialiser longer than its variable");
}

void Parser::initial_list(Variable& variable, uint64_t& offset, int depth) {
    if (depth > 16) fail("an initialiser of more than 16 levels");
    if (take('}')) return;
    do {
        if (take('{'))
            initial_list(variable, offset, depth + 1);
        else
            initial_value(variable, offset);
    } while (take(','));
    expect('}', "after an initialiser");
}

void Parser::initial_value(Variable& variable, uint64_t& offset) {
    const uint64_t bytes = traits(variable.type).bytes;
    if (offset + bytes > kMaxInitialBytes || module_.variables.size() > kMaxDeclarations)
        fail("an initialiser of more than 64 MiB");
    uint64_t bits = 0;
    if (token_.kind == TokenKind::word) {
        Relocation relocation;
        relocation.offset = offset;
        relocation.bytes = uint8_t(bytes);
        relocation.line = token_.line;
        std::string_view symbol = token_.text;
        if (ahead_.is('(')) {  // generic(sym), or a byte of an address: 0xFF(sym), which nobody writes
            if (symbol != "generic") fail("unknown operator " + std::string(symbol.substr(0, 80)));
            relocation.generic = true;
            advance(), advance();
            symbol = expect_word("a symbol");
            expect(')', "after generic(symbol");
        } else {
            advance();
        }
        relocation.symbol = symbol;
        const bool minus = token_.is('-');
        if (minus || token_.is('+')) {
            advance();
            const uint64_t addend = expect_integer("an offset");
            relocation.addend = int64_t(minus ? 0 - addend : addend);
        }
        if (bytes != 8) fail("an address in an initialiser needs a 64-bit element");
        variable.relocations.push_back(relocation);
    } else {
        const Operand value = number_operand();
        bits = value.bits;
        if (value.kind == OperandKind::real) {
            double wide = 0;
            float narrow = 0;
            if (value.narrow) {
                const uint32_t low = uint32_t(bits);
                std::memcpy(&narrow, &low, 4), wide = narrow;
            } else {
                std::memcpy(&wide, &bits, 8), narrow = float(wide);
            }
            if (variable.type == Type::f32 && !value.narrow) {
                uint32_t low = 0;
                std::memcpy(&low, &narrow, 4), bits = low;
            } else if (variable.type == Type::f64 && value.narrow) {
                std::memcpy(&bits, &wide, 8);
            }
        } else if (variable.type == Type::f32 || variable.type == Type::f64) {
            const double wide = double(int64_t(bits));
            const float narrow = float(wide);
            if (variable.type == Type::f64)
                std::memcpy(&bits, &wide, 8);
            else
                bits = 0, std::memcpy(&bits, &narrow, 4);
        }
    }
    if (variable.initial.size() < offset + bytes) variable.initial.resize(offset + bytes);
    std::memcpy(variable.initial.data() + offset, &bits, bytes < 8 ? bytes : 8);
    offset += bytes;
}

std::vector<Variable> Parser::parameters() {
    std::vector<Variable> list;
    if (!take('(')) return list;
    if (take(')')) return list;
    do {
        if (list.size() >= kMaxParameters) fail("too many parameters");
        if (take_dotted("param")) {
            list.push_back(declaration(Linkage::internal, Space::param));
        } else if (take_dotted("reg")) {
            list.push_back(declaration(Linkage::internal, Space::none));
        } else {
            fail(".param expected");
        }
        if (list.back().unsized && token_.is(','))
            fail("only the last parameter may be an array without a size");
    } while (take(','));
    expect(')', "after the parameters");
    return list;
}

void Parser::function(Linkage linkage, bool kernel) {
    if (module_.functions.size() >= 65536) fail("too many functions");
    Function function;
    function.linkage = linkage;
    function.kernel = kernel;
    function.line = token_.line;
    if (!kernel) function.returns = parameters();
    function.name = expect_word("a function's name");
    function.params = parameters();
    performance_directives(function);
    if (!take(';')) skip_body(function);
    module_.functions.push_back(std::move(function));
}

void Parser::skip_body(Function& function) {
    if (!token_.is('{')) expect('{', "before a function's body");
    const auto begin = size_t(token_.text.data() - text_.data());
    function.body_line = token_.line, function.body_column = token_.column;
    unsigned depth = 0;
    do {
        if (token_.is('{')) ++depth;
        if (token_.is('}') && --depth == 0) {
            function.body = text_.substr(begin, size_t(token_.text.data() - text_.data()) + 1 - begin);
            return advance();
        }
        if (token_.is_dotted("file"))
            debug_line();
        else
            advance();
    } while (token_.kind != TokenKind::end);
    // What is wrong says who reads it.
    Parser(text_.substr(begin), function.body_line, function.body_column).body(function);
    fail("a function's body that does not end");
}

void Parser::performance_directives(Function& function) {
    while (token_.kind == TokenKind::dotted) {
        const bool required = token_.is_dotted("reqntid"), most = token_.is_dotted("maxntid");
        const bool pragma = token_.is_dotted("pragma"), registers = token_.is_dotted("maxnreg");
        advance();
        if (pragma) {
            skip_to(';', "after .pragma");
            continue;
        }
        uint64_t product = 1;
        unsigned dimension = 0;
        while (token_.kind == TokenKind::integer) {
            const uint64_t extent = token_.bits;
            if (registers) function.max_registers = uint32_t(std::clamp<uint64_t>(extent, 1, 255));
            if (required || most) {
                if (extent == 0 || extent > 1024 || dimension == 3)
                    fail("block sizes are three numbers of 1 to 1024");
                product *= extent;
                if (required) function.required[dimension] = uint32_t(extent);
            }
            ++dimension;
            advance();
            if (!take(',')) break;
        }
        if (required) {
            for (; dimension < 3; ++dimension) function.required[dimension] = 1;
        }
        if (required || most) function.max_threads = uint32_t(std::min<uint64_t>(product, 1024));
    }
}

Module parse(std::string_view name, std::string_view text) {
    const size_t end = text.find('\0');
    if (end != std::string_view::npos) text = text.substr(0, end);
    return Parser(text).module(name);
}

Function with_body(const Function& head) {
    Function whole = head;
    Parser(head.body, head.body_line, head.body_column).body(whole);
    return whole;
}

}  // namespace softgpu::ptx
