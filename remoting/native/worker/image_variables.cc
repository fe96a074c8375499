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
#include "softgpu/ptx/error.h"
#include "softgpu/ptx/lexer.h"
#include "zstd/unpack.h"

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

// The variables of a text, at module level and in functions: at least what a compiler makes of them. What it
// does not understand is an Unreadable, and no guess: a name too long, a size that is no number.
class Unreadable {};

class Text {
  public:
    explicit Text(std::string_view text) : lexer_(text) {}

    // Throws Unreadable, or the lexer's Error.
    uint64_t bytes() {
        for (next(); !ended();) statement();
        return bytes_;
    }

  private:
    void next() {
        after_word_ = token_.kind == TokenKind::word || (after_word_ && token_.kind == TokenKind::dotted);
        token_ = lexer_.next();
    }
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
        if (token_.is_dotted("extern")) external_ = true;
        const bool ends = token_.is(';') || token_.is('{') || token_.is('}');
        if (ends || token_.is_dotted("visible") || token_.is_dotted("weak")) external_ = false;
        const bool variable = token_.is_dotted("global") || token_.is_dotted("const");
        // As in ld.global.u32, which names one thing after the other and no array.
        const bool of_instruction = after_word_;
        next();
        if (variable) declaration(of_instruction);
    }

    void declaration(bool of_instruction) {
        uint64_t element = 0, vector = 1, align = kApart;
        while (!ended() && token_.kind != TokenKind::word && !token_.is(';') && !token_.is('[')) {
            if (token_.is('(')) {
                while (!ended() && !token_.is(')')) next();
            } else if (token_.is_dotted("v2") || token_.is_dotted("v4") || token_.is_dotted("v8")) {
                vector = static_cast<uint64_t>(token_.text[1] - '0');
            } else if (token_.is_dotted("align")) {
                next();
                if (token_.kind != TokenKind::integer) throw Unreadable{};
                align = std::max(align, token_.bits);
                continue;
            } else if (token_.kind == TokenKind::dotted) {
                if (const uint64_t bytes = type_bytes(token_.text)) element = bytes;
                if (token_.text.ends_with("ref")) element = kReference;
            }
            next();
        }
        while (token_.kind == TokenKind::word) {
            next();
            const bool array = token_.is('[') || token_.is('<');
            const uint64_t one = wire::times(elements(), wire::times(element, vector));
            const uint64_t room = one > UINT64_MAX - align ? one : (one + align - 1) / align * align;
            if (!external_ && (array || !of_instruction)) bytes_ = sum(bytes_, room);
            if (!token_.is(',') || of_instruction) return;
            next();
        }
    }

    // Of what has just been named; up to behind its first value.
    uint64_t elements() {
        uint64_t all = 1;
        bool open = false;
        if (token_.is('<')) throw Unreadable{};  // names with numbers behind them
        while (token_.is('[')) {
            next();
            if (token_.kind == TokenKind::integer) {
                all = wire::times(all, token_.bits);
                next();
            } else {
                open = true;
            }
            if (!token_.is(']')) throw Unreadable{};
            next();
        }
        if (token_.is('=')) {
            next();
            if (token_.is('{')) {
                const uint64_t listed = braces() + 1;
                return open ? wire::times(all, listed) : all;
            }
            while (!ended() && !token_.is(',') && !token_.is(';')) next();
        }
        if (open && !external_) throw Unreadable{};
        return all;
    }

    static constexpr uint64_t kReference = 64;  // to a texture, a sampler, a surface

    Lexer lexer_;
    Token token_;
    bool after_word_ = false;  // and nothing but dotted words since
    bool external_ = false;
    uint64_t bytes_ = 0;
};

std::optional<uint64_t> text_variables(std::span<const std::byte> image) {
    const auto* text = reinterpret_cast<const char*>(image.data());
    try {
        return Text({text, strnlen(text, image.size())}).bytes();
    } catch (const softgpu::ptx::Error&) {
        return std::nullopt;
    } catch (const Unreadable&) {
        return std::nullopt;
    }
}

template <typename T>
bool read(std::span<const std::byte> from, uint64_t offset, T& value) {
    if (offset > from.size() || sizeof value > from.size() - offset) return false;
    std::memcpy(&value, from.data() + offset, sizeof value);
    return true;
}

// What is without contents and gets memory of its own: sections, of which shared memory takes nothing of the
// GPU's. The segments say the same in another way, and a driver may go by either.
std::optional<uint64_t> cubin_variables(std::span<const std::byte> image) {
    constexpr std::string_view kShared = ".nv.shared";
    constexpr uint64_t kMostShared = 1 << 20;  // of a block; no GPU has a quarter of it
    Elf64_Ehdr header;
    Elf64_Shdr names, section;
    if (!read(image, 0, header) || header.e_shentsize < sizeof section || header.e_shnum == 0)
        return std::nullopt;
    const auto section_at = [&](uint64_t i) { return header.e_shoff + i * header.e_shentsize; };
    if (header.e_shoff > image.size() || !read(image, section_at(header.e_shstrndx), names))
        return std::nullopt;
    uint64_t bytes = 0, shared = 0, segments = 0;
    for (uint32_t i = 0; i < header.e_shnum; ++i) {
        char name[kShared.size()] = {};
        if (!read(image, section_at(i), section)) return std::nullopt;
        if (section.sh_type != SHT_NOBITS) continue;
        read(image, names.sh_offset + section.sh_name, name);
        const bool is_shared =
            std::string_view(name, sizeof name) == kShared && section.sh_size <= kMostShared;
        uint64_t& all = is_shared ? shared : bytes;
        all = sum(all, sum(section.sh_size, section.sh_addralign > kApart ? section.sh_addralign : 0));
    }
    for (uint32_t i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        if (header.e_phentsize < sizeof segment || header.e_phoff > image.size() ||
            !read(image, header.e_phoff + uint64_t{i} * header.e_phentsize, segment)) {
            return std::nullopt;
        }
        if (segment.p_type == PT_LOAD && segment.p_memsz > segment.p_filesz)
            segments = sum(segments, segment.p_memsz - segment.p_filesz);
    }
    return std::max(bytes, segments > shared ? segments - shared : 0);
}

// `room`: what may still be unpacked of this image.
std::optional<uint64_t> entry_variables(const wire::FatbinEntry& entry, bool software, uint64_t& room) {
    using wire::FatbinEntry;
    if (entry.packing == FatbinEntry::Packing::none) return variable_bytes(entry.content, software);
    if (entry.plain_bytes > room) return std::nullopt;
    room -= entry.plain_bytes;
    std::string plain(entry.plain_bytes, '\0');
    const bool whole = entry.packing == FatbinEntry::Packing::zstd
                           ? zstd::unpack(entry.content, plain)
                           : softgpu::driver::unpack_lz4(entry.content, plain);
    const auto content = std::as_bytes(std::span(plain));
    if (!whole || wire::is_fatbin(content)) return std::nullopt;
    return variable_bytes(content, software);
}

}  // namespace

std::optional<uint64_t> variable_bytes(std::span<const std::byte> image, bool software) {
    if (image.empty()) return 0;
    if (image.size() >= SELFMAG && std::memcmp(image.data(), ELFMAG, SELFMAG) == 0)
        return cubin_variables(image);
    if (!wire::is_fatbin(image)) return text_variables(image);
    uint64_t room = wire::kMaxImage;
    std::optional<uint64_t> most = 0;
    const bool whole = wire::each_entry(image, [&](const wire::FatbinEntry& entry) {
        // What is neither is for linkers, and loads of it are refused by drivers.
        const bool machine_code = entry.kind == wire::FatbinEntry::kElf && !software;
        if (!most || (entry.kind != wire::FatbinEntry::kPtx && !machine_code)) return;
        const auto bytes =
            wire::is_fatbin(entry.content) ? std::nullopt : entry_variables(entry, software, room);
        most = bytes ? std::optional(std::max(*most, *bytes)) : std::nullopt;
    });
    return whole ? most : std::nullopt;
}

}  // namespace worker
