#include "text_cost.h"

#include <algorithm>

#include "softgpu/ptx/error.h"
#include "softgpu/ptx/lexer.h"

namespace worker {
namespace {

using softgpu::ptx::Lexer;
using softgpu::ptx::Token;
using softgpu::ptx::TokenKind;

// Bytes for each of what a text has; tests/forwarding/test_load_memory.py holds them against the process.
struct Costs {
    uint64_t statement, operand, mark, character, name, line, call, rich, pairs, variable;
};
constexpr Costs kOutside{1536, 1024, 256, 4, 8, 32, 0, 0, 0, 0};        // variables, heads of functions
constexpr Costs kReading{1536, 1024, 256, 16, 0, 0, 0, 2048, 4096, 0};  // a body, until its ops are made
constexpr Costs kStays{112, 56, 112, 0, 2, 16, 256, 336, 512, 288};     // of a body
// Branches through tables times what a body names with commas: edges of its graph, while it is read. The
// software GPU refuses a body with more.
constexpr uint64_t kEdge = 32, kMostEdges = 1ull << 20;
constexpr uint64_t kFunction = 4096;
constexpr uint64_t kInitial = 24, kInitialAddress = 320;  // tokens of a variable's initialiser; names in it
constexpr uint64_t kSharedTable = 4, kMostShared = 16ull << 20;  // kernels times shared variables
constexpr uint64_t kMoves = 32ull << 20;  // what malloc copies to let it grow; larger blocks are mapped anew

struct Code {
    uint64_t statements = 0;  // ;
    uint64_t operands = 0;    // ,
    uint64_t marks = 0;       // { and : of blocks, vectors, labels
    uint64_t characters = 0;
    uint64_t name_characters = 0;  // of what is too long to be no name
    uint64_t lines = 0;            // .loc and .file
    uint64_t calls = 0;
    uint64_t table_branches = 0;
    uint64_t rich = 0;       // words of instructions that become more ops than two and one an operand
    uint64_t pairs = 0;      // comparisons of two 16-bit floats at once: some ten ops each
    uint64_t variables = 0;  // of the image, which a body declares

    // `times`: an instruction under a guard becomes twice as many ops.
    void add(const Token& token, uint64_t times) {
        constexpr size_t kShort = 15;
        if (token.is(';')) statements += times;
        if (token.is(',')) operands += times;
        marks += token.is('{') || token.is(':');
        characters += token.text.size();
        if (token.text.size() > kShort) name_characters += token.text.size();
        lines += token.is_dotted("loc") || token.is_dotted("file");
        calls += token.is_word("call");
        table_branches += token.is_word("brx");
    }
    uint64_t edges() const { return std::min(table_branches * operands, kMostEdges); }
    uint64_t cost(const Costs& of) const {
        return statements * of.statement + operands * of.operand + marks * of.mark +
               characters * of.character + name_characters * of.name + lines * of.line + calls * of.call +
               rich * of.rich + pairs * of.pairs + variables * of.variable;
    }
};

class Counter {
  public:
    void add(const Token& token) {
        count_variables(token);
        count_rich(token);
        if (token.is('@')) times_ = 2;
        if (depth_ == 0 && token.is('{')) initialiser_ = before_.is('=');
        if (token.is('{')) ++depth_;
        if (depth_ == 0)
            outside(token);
        else if (initialiser_)
            initial_ += token.kind == TokenKind::word ? kInitialAddress : kInitial;
        else
            body_.add(token, times_);
        if (token.is('}') && depth_ > 0 && --depth_ == 0) end_body();
        if (token.is(';')) times_ = 1;
        before_ = token;
    }

    uint64_t cost() {
        end_body();  // of a text that ends within one
        const uint64_t table = std::min(kernels_ * std::min(shared_, kMostShared), kMostShared);
        return outside_.cost(kOutside) + stays_ + std::min(stays_, kMoves) + largest_ +
               functions_ * kFunction + initial_ + table * kSharedTable;
    }

  private:
    bool in_body() const { return depth_ > 0 && !initialiser_; }

    void outside(const Token& token) {
        outside_.add(token, 1);
        kernels_ += token.is_dotted("entry");
        functions_ += token.is_dotted("entry") || token.is_dotted("func");
    }

    void end_body() {
        largest_ = std::max(largest_, body_.cost(kReading) + body_.edges() * kEdge);
        stays_ += body_.cost(kStays);
        body_ = Code{};
    }

    // What declares variables begins a statement, and .loc and .file end with their lines; elsewhere in a
    // body the word is part of an instruction.
    void count_variables(const Token& token) {
        const bool ends_line = of_line_ && token.line != before_.line;
        const bool begins = ends_line || before_.is(';') || before_.is('{') || before_.is('}') ||
                            before_.is(':') || depth_ == 0;
        if (begins) of_line_ = false;
        if (token.is_dotted("loc") || token.is_dotted("file")) of_line_ = true;
        if (token.is(';')) declares_ = shares_ = false;
        const bool shared = token.is_dotted("shared");
        if (begins && (shared || token.is_dotted("global") || token.is_dotted("const"))) {
            declares_ = true, shares_ = shared;
            body_.variables += in_body(), shared_ += shared;
        } else if (declares_ && token.is(',')) {
            body_.variables += in_body(), shared_ += shares_;
        }
    }

    void count_rich(const Token& token) {
        if (token.kind == TokenKind::word && token.text.starts_with("set")) compares_ = true;
        if (token.is(';')) compares_ = false;
        const bool logic =
            compares_ && (token.is_dotted("and") || token.is_dotted("or") || token.is_dotted("xor"));
        if (logic || token.is_word("cp") || token.is_dotted("b128") || token.is_dotted("volatile") ||
            token.is_dotted("xorsign"))
            body_.rich += times_;
        if (compares_ && token.kind == TokenKind::dotted && token.text.ends_with("f16x2"))
            body_.pairs += times_;
    }

    Token before_;
    unsigned depth_ = 0;
    uint64_t times_ = 1;
    bool initialiser_ = false;
    bool of_line_ = false;
    bool declares_ = false, shares_ = false;  // the statement: variables of the image, shared ones
    bool compares_ = false;
    Code outside_, body_;
    uint64_t stays_ = 0, largest_ = 0;
    uint64_t functions_ = 0, kernels_ = 0, shared_ = 0, initial_ = 0;
};

}  // namespace

uint64_t text_cost_on_software(std::string_view text) {
    Counter counter;
    try {
        Lexer lexer(text);
        for (Token token = lexer.next(); token.kind != TokenKind::end; token = lexer.next())
            counter.add(token);
    } catch (const softgpu::ptx::Error&) {
        // The parser comes no further.
    }
    return text.size() + counter.cost();
}

}  // namespace worker
