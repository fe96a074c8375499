// Functions that the CUDA runtime provides to device code: printf, assert, malloc, free.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "exec/launch.h"

namespace softgpu {
namespace {

constexpr size_t kMaxText = 64 * 1024;  // of one printf's format or result
constexpr int kMaxWidth = 1024;

uint64_t argument(Warp* warp, const CallSite& site, size_t number, unsigned lane) {
    if (number >= site.arguments.size()) return 0;
    const Place& place = site.arguments[number];
    uint64_t bits = 0;
    const uint32_t bytes = std::min(place.bytes, 8u);
    const std::byte* from;
    if (place.local) {
        from = resolve(warp, lane, Windows::local + warp->frame->local_base + place.offset, bytes);
    } else {
        from = warp->slots + place.offset + uint64_t(lane) * (place.bytes == 8 ? 8 : 4);
    }
    if (from != nullptr) std::memcpy(&bits, from, bytes);
    return bits;
}

void give_back(Warp* warp, const CallSite& site, unsigned lane, uint64_t value) {
    if (site.returns.empty() || site.returns[0].bytes == 0) return;
    const Place& place = site.returns[0];
    const uint32_t bytes = std::min(place.bytes, 8u);
    std::byte* to = place.local
                        ? resolve(warp, lane, Windows::local + warp->frame->local_base + place.offset, bytes)
                        : warp->slots + place.offset + uint64_t(lane) * (place.bytes == 8 ? 8 : 4);
    if (to != nullptr) std::memcpy(to, &value, bytes);
}

// A C string at a generic address; false when it leaves accessible memory before its end.
bool read_text(Warp* warp, unsigned lane, uint64_t address, std::string& text) {
    for (size_t i = 0; i < kMaxText; ++i) {
        const std::byte* at = resolve(warp, lane, address + i, 1);
        if (at == nullptr) return false;
        if (*at == std::byte{0}) return true;
        text.push_back(char(*at));
    }
    return true;
}

// One printf of one lane: the arguments lie in a buffer, each aligned to its size.
class Formatter {
  public:
    Formatter(Warp* warp, unsigned lane, uint64_t buffer) : warp_(warp), lane_(lane), at_(buffer) {}

    bool format(const std::string& pattern, std::string& out) {
        for (size_t i = 0; i < pattern.size() && out.size() < kMaxText;) {
            if (pattern[i] != '%') {
                out.push_back(pattern[i++]);
            } else if (!conversion(pattern, i, out)) {
                return false;
            }
        }
        return true;
    }

  private:
    template <class T>
    bool next(T& value) {
        at_ = (at_ + sizeof value - 1) / sizeof value * sizeof value;
        const std::byte* from = resolve(warp_, lane_, at_, sizeof value);
        if (from == nullptr) return false;
        std::memcpy(&value, from, sizeof value);
        at_ += sizeof value;
        return true;
    }

    bool number(const std::string& pattern, size_t& i, std::string& spec) {
        int value = 0;
        if (i < pattern.size() && pattern[i] == '*') {
            ++i;
            if (!next(value)) return false;
        } else {
            while (i < pattern.size() && pattern[i] >= '0' && pattern[i] <= '9') {
                value = std::min(value * 10 + (pattern[i++] - '0'), 100000);
            }
        }
        if (value != 0) spec += std::to_string(std::clamp(value, -kMaxWidth, kMaxWidth));
        return true;
    }

    bool conversion(const std::string& pattern, size_t& i, std::string& out) {
        std::string spec = "%";
        for (++i; i < pattern.size() && std::strchr("-+ #0", pattern[i]) != nullptr && spec.size() < 8; ++i)
            spec += pattern[i];
        if (!number(pattern, i, spec)) return false;
        if (i < pattern.size() && pattern[i] == '.') {
            spec += pattern[i++];
            if (!number(pattern, i, spec)) return false;
        }
        int longs = 0;
        bool wide = false;
        for (; i < pattern.size() && std::strchr("hlLjzt", pattern[i]) != nullptr; ++i) {
            longs += pattern[i] == 'l';
            wide = wide || (pattern[i] != 'h' && pattern[i] != 'L');
        }
        if (i >= pattern.size()) return true;
        const char kind = pattern[i++];
        char text[kMaxWidth + 512];
        switch (kind) {
            case '%':
                out += '%';
                return true;
            case 'd':
            case 'i':
            case 'u':
            case 'o':
            case 'x':
            case 'X':
                return integer(spec, kind, wide, text, sizeof text, out);
            case 'c': {
                int value = 0;
                if (!next(value)) return false;
                std::snprintf(text, sizeof text, (spec + kind).c_str(), value);
                out += text;
                return true;
            }
            case 'e':
            case 'E':
            case 'f':
            case 'F':
            case 'g':
            case 'G':
            case 'a':
            case 'A': {
                double value = 0;
                if (!next(value)) return false;
                std::snprintf(text, sizeof text, (spec + kind).c_str(), value);
                out += text;
                return true;
            }
            case 'p': {
                uint64_t value = 0;
                if (!next(value)) return false;
                std::snprintf(text, sizeof text, (spec + 'p').c_str(), reinterpret_cast<void*>(value));
                out += text;
                return true;
            }
            case 's': {
                uint64_t value = 0;
                std::string piece;
                if (!next(value) || !read_text(warp_, lane_, value, piece)) return false;
                std::snprintf(text, sizeof text, (spec + 's').c_str(), piece.c_str());
                out += spec == "%" ? piece.c_str() : text;
                return true;
            }
            default:
                out += spec + kind;
                return true;
        }
    }

    bool integer(std::string spec, char kind, bool wide, char* text, size_t size, std::string& out) {
        long long value = 0;
        if (wide) {
            if (!next(value)) return false;
        } else {
            int narrow = 0;
            if (!next(narrow)) return false;
            value =
                kind == 'd' || kind == 'i' ? narrow : static_cast<long long>(static_cast<unsigned>(narrow));
        }
        std::snprintf(text, size, (spec + "ll" + kind).c_str(), value);
        out += text;
        return true;
    }

    Warp* warp_;
    unsigned lane_;
    uint64_t at_;
};

const Op* print(const Op* op, Warp* warp, const CallSite& site) {
    const Launch* launch = warp->block->launch->launch;
    for (uint32_t left = warp->mask; left != 0; left &= left - 1) {
        const unsigned lane = unsigned(std::countr_zero(left));
        std::string pattern, out;
        const uint64_t format = argument(warp, site, 0, lane), buffer = argument(warp, site, 1, lane);
        if (!read_text(warp, lane, format, pattern) || !Formatter(warp, lane, buffer).format(pattern, out)) {
            return fault(op, warp, Status::illegal_address, lane,
                         "printf was given an address that is out of bounds");
        }
        if (launch->print) launch->print(out);
        give_back(warp, site, lane, out.size());
    }
    return op + 1;
}

// __assertfail(message, file, line, function, character size)
const Op* assertion(const Op* op, Warp* warp, const CallSite& site) {
    const unsigned lane = unsigned(std::countr_zero(warp->mask));
    std::string message, file, function;
    read_text(warp, lane, argument(warp, site, 0, lane), message);
    read_text(warp, lane, argument(warp, site, 1, lane), file);
    read_text(warp, lane, argument(warp, site, 3, lane), function);
    const std::string line = std::to_string(uint32_t(argument(warp, site, 2, lane)));
    return fault(op, warp, Status::assertion, lane,
                 "assertion `" + message.substr(0, 1024) + "` failed in " + function.substr(0, 256) + " at " +
                     file.substr(0, 1024) + ":" + line);
}

}  // namespace

const Op* call_builtin(const Op* op, Warp* warp, const CallSite& site) {
    DeviceMemory* memory = warp->block->launch->memory;
    switch (site.builtin) {
        case Builtin::print:
            return print(op, warp, site);
        case Builtin::assertion:
            return assertion(op, warp, site);
        case Builtin::allocate:
            for (uint32_t left = warp->mask; left != 0; left &= left - 1) {
                const unsigned lane = unsigned(std::countr_zero(left));
                give_back(warp, site, lane, memory->allocate(argument(warp, site, 0, lane), 16));
            }
            return op + 1;
        case Builtin::release:
            for (uint32_t left = warp->mask; left != 0; left &= left - 1) {
                const uint64_t address = argument(warp, site, 0, unsigned(std::countr_zero(left)));
                if (address != 0) memory->free(address);
            }
            return op + 1;
        case Builtin::none:
            break;
    }
    return op + 1;
}

}  // namespace softgpu
