// PTX text to tokens. Reads hostile text: never past the end, every token bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace softgpu::ptx {

enum class TokenKind : uint8_t {
    end,
    word,         // add, %r1, $L__BB0_1, _Z3fooPf
    dotted,       // .reg, .f32, .shared::cta, .L2::128B: text without the dot
    integer,      // bits
    float_bits,   // 0f3F800000 and 0d...: bits and width
    decimal,      // 1.5: bits of a double
    string,       // text without the quotes
    punctuation,  // one character
};

struct Token {
    TokenKind kind = TokenKind::end;
    char mark = 0;        // punctuation
    bool narrow = false;  // float_bits: 0f
    unsigned line = 1, column = 1;
    uint64_t bits = 0;
    std::string_view text;

    bool is(char punctuation) const { return kind == TokenKind::punctuation && mark == punctuation; }
    bool is_word(std::string_view word) const { return kind == TokenKind::word && text == word; }
    bool is_dotted(std::string_view word) const { return kind == TokenKind::dotted && text == word; }
};

class Lexer {
  public:
    // The text outlives the lexer and its tokens. `line` and `column`: where it begins in a larger one.
    explicit Lexer(std::string_view text, unsigned line = 1, unsigned column = 1);
    Token next();  // throws Error
    unsigned column() const { return unsigned(at_ - line_start_ + 1); }

  private:
    void skip_blank();
    Token token();
    [[noreturn]] void fail(const std::string& what) const;
    Token number();
    Token word(TokenKind kind, size_t start);
    Token hex_float(bool narrow);
    bool at(size_t offset, char c) const { return at_ + offset < text_.size() && text_[at_ + offset] == c; }

    std::string_view text_;
    size_t at_ = 0;
    unsigned line_;
    size_t line_start_;  // before the text's own start, modulo 2^64, while it is on its first line
};

}  // namespace softgpu::ptx
