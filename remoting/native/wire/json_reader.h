// Reads JSON a value at a time: what an agent says of slices, what an attach point says of a request. Bounded
// by the text that it is given; nested values are passed over to a depth of kDepth.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace wire {

class JsonReader {
  public:
    explicit JsonReader(std::string_view text) : left_(text) {}

    bool take(char wanted) {
        skip_space();
        if (left_.empty() || left_.front() != wanted) return false;
        left_.remove_prefix(1);
        return true;
    }

    char peek() {
        skip_space();
        return left_.empty() ? '\0' : left_.front();
    }

    bool at_end() {
        skip_space();
        return left_.empty();
    }

    bool text(std::string& value) {
        value.clear();
        if (!take('"')) return false;
        while (!left_.empty()) {
            const char c = next();
            if (c == '"') return true;
            if (static_cast<unsigned char>(c) < 0x20) return false;
            if (c != '\\') {
                value += c;
            } else if (!escaped(value)) {
                return false;
            }
        }
        return false;
    }

    bool number(double& value) {
        skip_space();
        const auto [end, status] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
        if (status != std::errc()) return false;
        left_.remove_prefix(static_cast<size_t>(end - left_.data()));
        return true;
    }

    // Passes over one value of any kind.
    bool skip(int depth = 0) {
        if (depth > kDepth) return false;
        std::string ignored_text;
        double ignored_number = 0;
        switch (peek()) {
            case '"':
                return text(ignored_text);
            case '{':
                return skip_object(depth);
            case '[':
                return skip_list(depth);
            case 't':
                return word("true");
            case 'f':
                return word("false");
            case 'n':
                return word("null");
            default:
                return number(ignored_number);
        }
    }

  private:
    static constexpr int kDepth = 8;

    void skip_space() {
        const size_t at = left_.find_first_not_of(" \t\r\n");
        left_.remove_prefix(at == std::string_view::npos ? left_.size() : at);
    }

    char next() {
        const char c = left_.front();
        left_.remove_prefix(1);
        return c;
    }

    bool word(std::string_view wanted) {
        if (!left_.starts_with(wanted)) return false;
        left_.remove_prefix(wanted.size());
        return true;
    }

    bool escaped(std::string& value) {
        static constexpr std::string_view letters = "\"\\/bfnrt";
        static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
        if (left_.empty()) return false;
        const char c = next();
        if (c == 'u') return code_unit(value);
        const size_t at = letters.find(c);
        if (at == std::string_view::npos) return false;
        value += meanings[at];
        return true;
    }

    // As UTF-8; half of a surrogate pair becomes a question mark, which no name of a GPU needs.
    bool code_unit(std::string& value) {
        uint16_t unit = 0;
        if (left_.size() < 4) return false;
        const auto [end, status] = std::from_chars(left_.data(), left_.data() + 4, unit, 16);
        if (status != std::errc() || end != left_.data() + 4) return false;
        left_.remove_prefix(4);
        if (unit < 0x80) {
            value += static_cast<char>(unit);
        } else if (unit < 0x800) {
            value += static_cast<char>(0xc0 | unit >> 6);
            value += static_cast<char>(0x80 | (unit & 0x3f));
        } else if (unit >= 0xd800 && unit < 0xe000) {
            value += '?';
        } else {
            value += static_cast<char>(0xe0 | unit >> 12);
            value += static_cast<char>(0x80 | (unit >> 6 & 0x3f));
            value += static_cast<char>(0x80 | (unit & 0x3f));
        }
        return true;
    }

    bool skip_list(int depth) {
        if (!take('[')) return false;
        if (take(']')) return true;
        do {
            if (!skip(depth + 1)) return false;
        } while (take(','));
        return take(']');
    }

    bool skip_object(int depth) {
        std::string key;
        if (!take('{')) return false;
        if (take('}')) return true;
        do {
            if (!text(key) || !take(':') || !skip(depth + 1)) return false;
        } while (take(','));
        return take('}');
    }

    std::string_view left_;
};

}  // namespace wire
