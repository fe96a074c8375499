#include "ptx/lexer.h"

#include <charconv>
#include <cstring>
#include <string>

#include "ptx/error.h"

namespace softgpu::ptx {
namespace {

constexpr size_t kMaxToken = 16384;  // mangled names are long

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool starts_word(char c) {
    return is_letter(c) || c == '_' || c == '$' || c == '%';
}
bool continues_word(char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}

int digit_of(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

}  // namespace

Lexer::Lexer(std::string_view text, unsigned line, unsigned column)
    : text_(text), line_(line), line_start_(size_t{1} - column) {}

void Lexer::skip_blank() {
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (c == '\n') {
            ++line_;
            line_start_ = ++at_;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            ++at_;
        } else if (c == '/' && at(1, '/')) {
            while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        } else if (c == '/' && at(1, '*')) {
            const size_t close = text_.find("*/", at_ + 2);
            if (close == std::string_view::npos) fail("a comment that does not end");
            for (; at_ < close + 2; ++at_) {
                if (text_[at_] == '\n') ++line_, line_start_ = at_ + 1;
            }
        } else {
            return;
        }
    }
}

void Lexer::fail(const std::string& what) const {
    throw Error(line_, what, column());
}

Token Lexer::next() {
    skip_blank();
    const unsigned column = this->column();
    Token found = token();
    found.column = column;
    return found;
}

Token Lexer::token() {
    Token token;
    token.line = line_;
    if (at_ >= text_.size()) return token;
    const char c = text_[at_];
    if (c == '.' && at_ + 1 < text_.size() && continues_word(text_[at_ + 1]) && !is_digit(text_[at_ + 1])) {
        ++at_;
        return word(TokenKind::dotted, at_);
    }
    // Vector widths and the like: `.2d`, and `.1` of a decimal without a leading zero.
    if (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])) {
        size_t end = at_ + 1;
        while (end < text_.size() && is_digit(text_[end])) ++end;
        if (end < text_.size() && is_letter(text_[end]) && text_[end] != 'e' && text_[end] != 'E') {
            ++at_;
            return word(TokenKind::dotted, at_);
        }
        return number();
    }
    const bool remainder = c == '%' && !(at_ + 1 < text_.size() && continues_word(text_[at_ + 1]));
    if (starts_word(c) && !remainder) return word(TokenKind::word, at_);
    if (is_digit(c)) return number();
    if (c == '"') {
        const size_t close = text_.find_first_of("\"\n", at_ + 1);
        if (close == std::string_view::npos || text_[close] != '"') fail("a string that does not end");
        token.kind = TokenKind::string;
        token.text = text_.substr(at_ + 1, close - at_ - 1);
        at_ = close + 1;
        return token;
    }
    if (c <= ' ' || c > '~') fail("byte " + std::to_string(uint8_t(c)) + " is no PTX text");
    token.kind = TokenKind::punctuation;
    token.mark = c;
    token.text = text_.substr(at_++, 1);
    return token;
}

Token Lexer::word(TokenKind kind, size_t start) {
    Token token;
    token.kind = kind;
    token.line = line_;
    size_t end = start + (kind == TokenKind::word ? 1 : 0);
    while (end < text_.size()) {
        if (continues_word(text_[end])) {
            ++end;
        } else if (kind == TokenKind::dotted && text_[end] == ':' && end + 2 < text_.size() &&
                   text_[end + 1] == ':' && continues_word(text_[end + 2])) {
            end += 2;
        } else {
            break;
        }
    }
    if (end - start > kMaxToken) fail("a name of more than 16384 characters");
    token.text = text_.substr(start, end - start);
    at_ = end;
    return token;
}

Token Lexer::hex_float(bool narrow) {
    Token token;
    token.kind = TokenKind::float_bits;
    token.line = line_;
    token.narrow = narrow;
    const size_t digits = narrow ? 8 : 16;
    for (size_t i = 0; i < digits; ++i) {
        const size_t place = at_ + 2 + i;
        const int digit = place < text_.size() ? digit_of(text_[place]) : 99;
        if (digit > 15) fail(narrow ? "0f wants 8 hexadecimal digits" : "0d wants 16 hexadecimal digits");
        token.bits = token.bits << 4 | uint64_t(digit);
    }
    token.text = text_.substr(at_, digits + 2);
    at_ += digits + 2;
    return token;
}

Token Lexer::number() {
    Token token;
    token.line = line_;
    const bool zero = text_[at_] == '0';
    if (zero && (at(1, 'f') || at(1, 'F'))) return hex_float(true);
    if (zero && (at(1, 'd') || at(1, 'D'))) return hex_float(false);
    size_t start = at_, end = at_;
    unsigned base = 10;
    if (zero && (at(1, 'x') || at(1, 'X'))) {
        base = 16, end = start = at_ + 2;
    } else if (zero && (at(1, 'b') || at(1, 'B'))) {
        base = 2, end = start = at_ + 2;
    }
    while (end < text_.size() && unsigned(digit_of(text_[end])) < base) ++end;
    const bool fraction = base == 10 && end + 1 < text_.size() && text_[end] == '.' &&
                          (is_digit(text_[end + 1]) || !continues_word(text_[end + 1]));
    const bool exponent = base == 10 && end < text_.size() && (text_[end] == 'e' || text_[end] == 'E');
    if (fraction || exponent || text_[at_] == '.') {
        double value = 0;
        const auto parsed = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
        if (parsed.ptr == text_.data() + at_) fail("a malformed number");
        token.kind = TokenKind::decimal;
        std::memcpy(&token.bits, &value, sizeof value);
        const size_t length = size_t(parsed.ptr - text_.data()) - at_;
        token.text = text_.substr(at_, length);
        at_ += length;
        return token;
    }
    if (end == start) fail("a malformed number");
    if (base == 10 && zero && end - start > 1) base = 8;
    token.kind = TokenKind::integer;
    for (size_t i = start; i < end; ++i) {
        const unsigned digit = unsigned(digit_of(text_[i]));
        if (digit >= base) fail("a malformed octal number");
        if (token.bits > (UINT64_MAX - digit) / base) fail("an integer of more than 64 bits");
        token.bits = token.bits * base + digit;
    }
    if (end < text_.size() && text_[end] == 'U') ++end;
    token.text = text_.substr(at_, end - at_);
    at_ = end;
    return token;
}

}  // namespace softgpu::ptx
