#include "exec/readable_name.h"

#include <string_view>

namespace softgpu {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// "4part" at `at`: the length, then as many characters. Moves `at` behind them; empty if there is no such
// thing.
std::string_view take_counted(std::string_view name, size_t& at) {
    size_t length = 0, start = at;
    for (; start < name.size() && is_digit(name[start]) && length < 10000; ++start)
        length = length * 10 + size_t(name[start] - '0');
    if (length == 0 || length > name.size() - start) return {};
    at = start + length;
    return name.substr(start, length);
}

// The variable of a function: behind the function's own name and an E, up to the end.
std::string_view local_variable(std::string_view name) {
    for (size_t e = name.rfind('E'); e != std::string_view::npos && e > 0; e = name.rfind('E', e - 1)) {
        size_t at = e + 1;
        const std::string_view found = take_counted(name, at);
        if (!found.empty() && (at == name.size() || name[at] == '_')) return found;
    }
    return {};
}

}  // namespace

std::string readable_name(const std::string& name) {
    const std::string_view text = name;
    if (text.substr(0, 2) != "_Z") return name;
    std::string_view last;
    if (text.substr(0, 3) == "_ZZ") {
        last = local_variable(text);
    } else {
        size_t at = text.substr(2, 1) == "N" ? 3 : 2;
        for (auto next = take_counted(text, at); !next.empty(); next = take_counted(text, at)) last = next;
    }
    return last.empty() ? name : std::string(last);
}

}  // namespace softgpu
