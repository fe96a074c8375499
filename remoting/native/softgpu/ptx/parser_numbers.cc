// Numbers, and what PTX's constant expressions make of them.
#include "ptx/parser.h"

namespace softgpu::ptx {
namespace {

constexpr int kMaxDepth = 64;

// Operators of two operands by how tightly they bind, as in C; 10 binds most.
int level_of(const std::string_view symbol) {
    if (symbol == "*" || symbol == "/" || symbol == "%") return 10;
    if (symbol == "+" || symbol == "-") return 9;
    if (symbol == "<<" || symbol == ">>") return 8;
    if (symbol == "<" || symbol == ">" || symbol == "<=" || symbol == ">=") return 7;
    if (symbol == "==" || symbol == "!=") return 6;
    if (symbol == "&") return 5;
    if (symbol == "^") return 4;
    if (symbol == "|") return 3;
    if (symbol == "&&") return 2;
    if (symbol == "||") return 1;
    return 0;
}

// Signed where both are, as numbers without a U are; PTX's rules for mixed signs matter only past 2^63.
uint64_t apply(std::string_view symbol, uint64_t a, uint64_t b) {
    const int64_t x = int64_t(a), y = int64_t(b);
    if (symbol == "*") return a * b;
    if (symbol == "/") return y == -1 ? 0 - a : uint64_t(x / y);
    if (symbol == "%") return y == -1 ? 0 : uint64_t(x % y);
    if (symbol == "+") return a + b;
    if (symbol == "-") return a - b;
    if (symbol == "<<") return b > 63 ? 0 : a << b;
    if (symbol == ">>") return uint64_t(b > 63 ? (x < 0 ? -1 : 0) : x >> b);
    if (symbol == "<") return x < y;
    if (symbol == ">") return x > y;
    if (symbol == "<=") return x <= y;
    if (symbol == ">=") return x >= y;
    if (symbol == "==") return a == b;
    if (symbol == "!=") return a != b;
    if (symbol == "&") return a & b;
    if (symbol == "^") return a ^ b;
    if (symbol == "|") return a | b;
    if (symbol == "&&") return a && b;
    return a || b;
}

}  // namespace

Operand Parser::number_operand() {
    Operand value;
    const bool minus = take('-');
    if (minus && token_.kind == TokenKind::word && function_ != nullptr) {
        value = named_operand(false);
        value.minus = true;
        return value;
    }
    if (!minus) take('+');
    value.bits = token_.bits;
    switch (token_.kind) {
        case TokenKind::integer:
            value.kind = OperandKind::integer;
            if (minus) value.bits = 0 - value.bits;
            break;
        case TokenKind::float_bits:
        case TokenKind::decimal:
            value.kind = OperandKind::real;
            value.narrow = token_.kind == TokenKind::float_bits && token_.narrow;
            if (minus) value.bits ^= value.narrow ? 0x80000000u : 1ull << 63;
            break;
        default:
            fail("an operand expected, found '" + std::string(token_.text.substr(0, 80)) + "'");
    }
    advance();
    return value;
}

// A number, or an expression of integers.
Operand Parser::expression() {
    const bool opens =
        token_.is('(') || token_.is('~') || ((token_.is('-') || token_.is('+')) && ahead_.is('('));
    Operand value;
    if (!opens) {
        value = number_operand();
        if (value.kind != OperandKind::integer || token_.kind != TokenKind::punctuation ||
            std::string_view("*/%+-<>=!&^|?").find(token_.mark) == std::string_view::npos) {
            return value;
        }
        pending_ = value.bits;
        has_pending_ = true;
    }
    value.kind = OperandKind::integer;
    value.bits = expression_value(0, 0);
    return value;
}

// level 0: with `a ? b : c` around what binds from level 1 on.
uint64_t Parser::expression_value(int level, int depth) {
    if (depth > kMaxDepth) fail("an expression nested too deeply");
    if (level == 0) {
        const uint64_t condition = expression_value(1, depth + 1);
        if (!take('?')) return condition;
        const uint64_t yes = expression_value(0, depth + 1);
        expect(':', "in a conditional expression");
        const uint64_t no = expression_value(0, depth + 1);
        return condition ? yes : no;
    }
    uint64_t value = expression_unit(depth);
    while (token_.kind == TokenKind::punctuation) {
        // Two characters make one operator where they do in C.
        const char first = token_.mark, second = ahead_.kind == TokenKind::punctuation ? ahead_.mark : '\0';
        const bool doubled =
            (first == second && std::string_view("<>=&|").find(first) != std::string_view::npos) ||
            (second == '=' && std::string_view("<>!").find(first) != std::string_view::npos);
        const std::string symbol = doubled ? std::string{first, second} : std::string{first};
        const int binds = level_of(symbol);
        if (binds == 0 || binds < level) return value;
        advance();
        if (doubled) advance();
        const uint64_t right = expression_value(binds + 1, depth + 1);
        if ((symbol == "/" || symbol == "%") && right == 0) fail("a division by zero in an expression");
        value = apply(symbol, value, right);
    }
    return value;
}

uint64_t Parser::expression_unit(int depth) {
    if (depth > kMaxDepth) fail("an expression nested too deeply");
    if (has_pending_) {
        has_pending_ = false;
        return pending_;
    }
    if (take('-')) return 0 - expression_unit(depth + 1);
    if (take('+')) return expression_unit(depth + 1);
    if (take('~')) return ~expression_unit(depth + 1);
    if (take('!')) return !expression_unit(depth + 1);
    if (take('(')) {
        if (take_dotted("s64") || take_dotted("u64")) {  // a cast
            expect(')', "after a cast");
            return expression_unit(depth + 1);
        }
        const uint64_t value = expression_value(0, depth + 1);
        expect(')', "after an expression");
        return value;
    }
    if (token_.is_word("WARP_SZ")) return advance(), 32;
    return expect_integer("an integer");
}

}  // namespace softgpu::ptx
