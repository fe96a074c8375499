#include "image_variables.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "box.h"
#include "fatbin.h"
#include "protocol.h"
#include "softgpu/driver/lz4.h"
#include "softgpu/driver/zstd.h"
#include "softgpu/ptx/error.h"
#include "softgpu/ptx/lexer.h"

namespace worker {
namespace {

using softgpu::ptx::Lexer;
using softgpu::ptx::Token;
using softgpu::ptx::TokenKind;

constexpr uint64_t kApart = 16;  // variables lie at such addresses at least

uint64_t sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

// Of a fundamental type's name: u8, f64, bf16, f16x2, b128. 0 for what is no number, such as texref.
uint64_t type_bytes(std::string_view type) {
    uint64_t bits = 0, times_of = 1;
    const size_t first = type.find_first_of("0123456789");
    if (first == std::string_view::npos || first > 2) return 0;
    for (size_t i = first; i < type.size(); ++i) {
        if (type[i] == 'x' && i + 2 == type.size()) {
            times_of = static_cast<uint64_t>(type[i + 1] - '0');
            break;
        }
        if (type[i] < '0' || type[i] > '9' || i > first + 2) return 0;
        bits = bits * 10 + static_cast<uint64_t>(type[i] - '0');
    }
    return bits / 8 * times_of;
}

// The variables of a text's outermost level. It need not be right: what is not understood is passed over.
class Text {
  public:
    explicit Text(std::string_view text) : lexer_(text) {}

    uint64_t bytes() {
        try {
            for (next(); token_.kind != TokenKind::end;) statement();
        } catch (const softgpu::ptx::Error&) {
            return bytes_;
        }
        return bytes_;
    }

  private:
    void next() { token_ = lexer_.next(); }
    bool ended() const { return token_.kind == TokenKind::end; }

    // Up to behind the brace that ends what begins here; how many commas stand in its outermost level.
    uint64_t braces() {
        uint64_t depth = 0, commas = 0;
        do {
            if (token_.is('{')) ++depth;
            if (token_.is('}')) --depth;
            if (token_.is(',') && depth == 1) ++commas;
            next();
        } while (depth > 0 && !ended());
        return commas;
    }

    void statement() {
        if (token_.is('{')) {
            braces();
            external_ = false;
            return;
        }
        if (token_.is_dotted("extern")) external_ = true;
        if (token_.is(';') || token_.is_dotted("visible") || token_.is_dotted("weak")) external_ = false;
        const bool variable = token_.is_dotted("global") || token_.is_dotted("const");
        next();
        if (variable) declaration();
    }

    void declaration() {
        uint64_t element = 0, vector = 1;
        while (!ended() && token_.kind != TokenKind::word && !token_.is(';')) {
            if (token_.is('(')) {
                while (!ended() && !token_.is(')')) next();
            } else if (token_.is_dotted("v2") || token_.is_dotted("v4") || token_.is_dotted("v8")) {
                vector = static_cast<uint64_t>(token_.text[1] - '0');
            } else if (token_.kind == TokenKind::dotted) {
                if (const uint64_t bytes = type_bytes(token_.text)) element = bytes;
            }
            next();
        }
        while (token_.kind == TokenKind::word) {
            next();
            const uint64_t one = wire::times(array(), wire::times(element, vector));
            const uint64_t room = one > UINT64_MAX - kApart ? one : (one + kApart - 1) / kApart * kApart;
            if (!external_) bytes_ = sum(bytes_, room);
            if (!token_.is(',')) return;
            next();
        }
    }

    // Elements of what has just been named; up to behind its first value.
    uint64_t array() {
        uint64_t elements = 1;
        bool open = false;
        while (token_.is('[')) {
            next();
            if (token_.kind == TokenKind::integer) {
                elements = wire::times(elements, token_.bits);
                next();
            } else {
                open = true;
            }
            while (!ended() && !token_.is(']')) next();
            next();
        }
        if (!token_.is('=')) return open ? 0 : elements;
        next();
        if (token_.is('{')) {
            const uint64_t listed = braces() + 1;
            return open ? wire::times(elements, listed) : elements;
        }
        while (!ended() && !token_.is(',') && !token_.is(';')) next();
        return elements;
    }

    Lexer lexer_;
    Token token_;
    bool external_ = false;
    uint64_t bytes_ = 0;
};

uint64_t text_variables(std::span<const std::byte> image) {
    const auto* text = reinterpret_cast<const char*>(image.data());
    return Text({text, strnlen(text, image.size())}).bytes();
}

template <typename T>
bool read(std::span<const std::byte> from, uint64_t offset, T& value) {
    if (offset > from.size() || sizeof value > from.size() - offset) return false;
    std::memcpy(&value, from.data() + offset, sizeof value);
    return true;
}

// Sections of global variables without contents; shared memory has such sections too, which take nothing.
uint64_t cubin_variables(std::span<const std::byte> image) {
    constexpr std::string_view kGlobals = ".nv.global";
    Elf64_Ehdr header;
    if (!read(image, 0, header) || header.e_shentsize < sizeof(Elf64_Shdr)) return 0;
    Elf64_Shdr names, section;
    if (!read(image, header.e_shoff + uint64_t{header.e_shstrndx} * header.e_shentsize, names)) return 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < header.e_shnum; ++i) {
        char name[kGlobals.size()];
        if (!read(image, header.e_shoff + uint64_t{i} * header.e_shentsize, section)) break;
        if (section.sh_type != SHT_NOBITS || !read(image, names.sh_offset + section.sh_name, name)) continue;
        if (std::string_view(name, sizeof name) == kGlobals) bytes = sum(bytes, section.sh_size);
    }
    return bytes;
}

// `room`: what may still be unpacked of this image.
std::optional<uint64_t> entry_variables(const wire::FatbinEntry& entry, uint64_t& room) {
    using softgpu::driver::Zstd;
    using wire::FatbinEntry;
    if (entry.packing == FatbinEntry::Packing::none) return variable_bytes(entry.content);
    if (entry.plain_bytes > room) return std::nullopt;
    room -= entry.plain_bytes;
    std::string plain(entry.plain_bytes, '\0');
    const bool whole = entry.packing == FatbinEntry::Packing::zstd
                           ? softgpu::driver::unpack_zstd(entry.content, plain) == Zstd::unpacked
                           : softgpu::driver::unpack_lz4(entry.content, plain);
    const auto content = std::as_bytes(std::span(plain));
    if (!whole || wire::is_fatbin(content)) return 0;
    return variable_bytes(content);
}

}  // namespace

std::optional<uint64_t> variable_bytes(std::span<const std::byte> image) {
    if (image.empty()) return 0;
    if (image.size() >= SELFMAG && std::memcmp(image.data(), ELFMAG, SELFMAG) == 0)
        return cubin_variables(image);
    if (!wire::is_fatbin(image)) return text_variables(image);
    uint64_t room = wire::kMaxImage;
    std::optional<uint64_t> most = 0;
    wire::each_entry(image, [&](const wire::FatbinEntry& entry) {
        if (!most || wire::is_fatbin(entry.content)) return;
        const auto bytes = entry_variables(entry, room);
        most = bytes ? std::optional(std::max(*most, *bytes)) : std::nullopt;
    });
    return most;
}

}  // namespace worker
