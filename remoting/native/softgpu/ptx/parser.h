// Recursive descent over the tokens of one PTX module.
#pragma once

#include <string>
#include <unordered_map>

#include "ptx/error.h"
#include "ptx/lexer.h"
#include "ptx/syntax.h"

namespace softgpu::ptx {

class Parser {
  public:
    // `line` and `column`: where the text begins in a larger one.
    explicit Parser(std::string_view text, unsigned line = 1, unsigned column = 1);
    Module module(std::string_view name);
    void body(Function& function);

  private:
    struct Range {  // .reg .b32 %r<100>
        uint32_t count;
        Type type;
        std::unordered_map<uint32_t, uint32_t> used;  // number to register
    };
    struct Scope {
        uint32_t parent;
        std::unordered_map<std::string_view, uint32_t> registers;
        std::unordered_map<std::string_view, Range> ranges;
        std::unordered_map<std::string_view, uint32_t> variables;
        std::unordered_map<std::string_view, uint32_t> labels;
    };
    struct Reference {  // of an instruction or table to a label
        std::string_view name;
        uint32_t scope;
        unsigned line, column;
        uint32_t instruction, operand;
    };

    // tokens
    void advance() { token_ = ahead_, ahead_ = lexer_.next(); }
    bool is_brace() const { return token_.is('{') || token_.is('}'); }
    // Up to `mark`, which is taken. Braces always nest, so that a body's end can be found without reading it.
    void skip_to(char mark, const char* where);
    bool take(char punctuation);
    bool take_dotted(std::string_view word);
    void expect(char punctuation, const char* where);
    std::string_view expect_word(const char* what);
    uint64_t expect_integer(const char* what);
    [[noreturn]] void fail(const std::string& what) const { throw Error(token_.line, what, token_.column); }

    // module level
    void module_directive();
    void link_option(std::string_view pragma);
    void version();
    void target();
    void skip_braces();
    void debug_line();
    void function(Linkage linkage, bool kernel);
    void performance_directives(Function& function);
    void declarations(Linkage linkage, Space space, std::vector<Variable>& into, uint32_t scope);
    Variable declaration(Linkage linkage, Space space);
    void array_bounds(Variable& variable, uint64_t elements);
    std::vector<Variable> parameters();
    void initializer(Variable& variable);
    void initial_list(Variable& variable, uint64_t& offset, int depth);
    void initial_value(Variable& variable, uint64_t& offset);

    // function bodies
    void skip_body(Function& function);
    void statement();
    void body_directive();
    void registers();
    void branch_targets(std::string_view name);
    void call_prototype(std::string_view name);
    void instruction();
    void call_operands(Instruction& instruction);
    Operand operand(bool label);
    Operand texture_operand();
    Operand address(bool coordinates = false);
    Operand vector_operand();
    Operand number_operand();
    Operand expression();  // of numbers only
    uint64_t expression_value(int level, int depth);
    uint64_t expression_unit(int depth);
    Operand named_operand(bool label);
    void symbol_offset(Operand& operand);
    uint32_t find_register(std::string_view name);
    uint32_t find_variable(std::string_view name) const;
    uint32_t new_register(Type type);
    void resolve_labels();
    uint32_t find_label(const Reference& reference) const;

    const std::string_view text_;
    Lexer lexer_;
    Token token_, ahead_;
    Module module_;
    Function* function_ = nullptr;
    std::vector<Scope> scopes_;
    uint32_t scope_ = 0;
    std::vector<Reference> references_;
    uint64_t pending_ = 0;  // the first number of an expression, read before it was known to be one
    bool has_pending_ = false;
};

}  // namespace softgpu::ptx
