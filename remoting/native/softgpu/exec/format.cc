#include "exec/format.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace softgpu {
namespace {

constexpr size_t kMaxText = 64 * 1024;  // of one printf's result
constexpr int kMaxWidth = 4096;

// The parts of one conversion: %[flags][width][.precision][length]kind.
struct Conversion {
    std::string flags;
    int width = 0, precision = -1;
    int shorts = 0;     // h: 1, hh: 2
    bool wide = false;  // 64 bits: l, ll, j, z, t
    char kind = 0;
};

class Printer {
  public:
    Printer(const std::string& pattern, const PrintSource& source, std::string& out, int& arguments)
        : pattern_(pattern), source_(source), out_(out), arguments_(arguments) {}

    bool run() {
        while (at_ < pattern_.size() && out_.size() < kMaxText) {
            if (pattern_[at_] != '%') {
                out_.push_back(pattern_[at_++]);
            } else if (const size_t start = at_++; !conversion(start)) {
                return false;
            }
        }
        return true;
    }

  private:
    bool is(const char* set) const {
        return at_ < pattern_.size() && std::strchr(set, pattern_[at_]) != nullptr;
    }
    template <class T>
    bool next(T& value) {
        ++arguments_;
        return source_.next(&value, sizeof value);
    }

    bool number(int& value) {
        if (is("*")) {
            ++at_;
            if (!next(value)) return false;
        } else {
            value = 0;
            for (; is("0123456789"); ++at_) value = std::min(value * 10 + (pattern_[at_] - '0'), kMaxWidth);
        }
        value = std::clamp(value, -kMaxWidth, kMaxWidth);
        return true;
    }

    bool conversion(size_t start) {
        Conversion what;
        for (; is("-+ #0"); ++at_) {
            if (what.flags.find(pattern_[at_]) == std::string::npos) what.flags += pattern_[at_];
        }
        if (!number(what.width)) return false;
        if (what.width < 0) what.flags += '-', what.width = -what.width;
        if (is(".")) {
            ++at_;
            if (!number(what.precision)) return false;  // a negative one counts as none
        }
        for (; is("hlLqjzt"); ++at_) {
            what.shorts += pattern_[at_] == 'h';
            what.wide = what.wide || (pattern_[at_] != 'h' && pattern_[at_] != 'L');
        }
        if (at_ == pattern_.size()) {  // an unfinished conversion stands as it is
            out_.append(pattern_, start, std::string::npos);
            return true;
        }
        what.kind = pattern_[at_++];
        if (what.kind == '%') return out_.push_back('%'), true;
        if (std::strchr("diuoxX", what.kind)) return integer(what);
        if (std::strchr("eEfFgGaA", what.kind)) return typed<double>(what);
        if (what.kind == 'c') return typed<int>(what);
        if (what.kind == 'p') return typed<void*>(what);
        if (what.kind == 's') return text(what);
        out_.append(pattern_, start, at_ - start);
        return true;
    }

    template <class T>
    void print(const Conversion& what, const char* length, T value) {
        std::string spec = "%" + what.flags;
        if (what.width > 0) spec += std::to_string(what.width);
        if (what.precision >= 0) spec += "." + std::to_string(what.precision);
        spec += length;
        spec += what.kind;
        const int size = std::snprintf(nullptr, 0, spec.c_str(), value);
        if (size <= 0) return;
        std::string piece(size_t(size) + 1, '\0');
        std::snprintf(piece.data(), piece.size(), spec.c_str(), value);
        piece.pop_back();
        out_ += piece;
    }
    template <class T>
    bool typed(const Conversion& what) {
        T value{};
        if (!next(value)) return false;
        print(what, "", value);
        return true;
    }

    bool integer(const Conversion& what) {
        const bool is_signed = what.kind == 'd' || what.kind == 'i';
        long long value = 0;
        if (what.wide) {
            if (!next(value)) return false;
        } else {
            int narrow = 0;
            if (!next(narrow)) return false;
            if (what.shorts == 1)
                narrow = is_signed ? int(short(narrow)) : int(static_cast<unsigned short>(narrow));
            if (what.shorts >= 2)
                narrow = is_signed ? int(static_cast<signed char>(narrow))
                                   : int(static_cast<unsigned char>(narrow));
            value = is_signed ? narrow : static_cast<long long>(static_cast<unsigned>(narrow));
        }
        print(what, "ll", value);
        return true;
    }

    bool text(const Conversion& what) {
        uint64_t address = 0;
        std::string piece;
        if (!next(address)) return false;
        const size_t most = what.precision >= 0 ? size_t(what.precision) : kMaxText;
        if (address == 0)
            piece = most >= 6 ? "(null)" : "";
        else if (!source_.text(address, most, piece))
            return false;
        Conversion plain = what;
        plain.precision = -1;
        print(plain, "", piece.c_str());
        return true;
    }

    const std::string& pattern_;
    const PrintSource& source_;
    std::string& out_;
    int& arguments_;
    size_t at_ = 0;
};

}  // namespace

bool format_print(const std::string& pattern, const PrintSource& source, std::string& out, int& arguments) {
    return Printer(pattern, source, out, arguments).run();
}

}  // namespace softgpu
