#include "lz4.h"

#include <cstdint>

namespace softgpu::driver {
namespace {

constexpr size_t kMinMatch = 4;

// Reads a length: 15 in the token is followed by bytes to add, up to one that is not 255.
bool extend(std::span<const std::byte> packed, size_t& at, size_t& length) {
    if (length != 15) return true;
    for (;;) {
        if (at == packed.size()) return false;
        const auto more = static_cast<uint8_t>(packed[at++]);
        length += more;
        if (more != 255) return true;
    }
}

}  // namespace

bool unpack_lz4(std::span<const std::byte> packed, std::string& plain) {
    size_t in = 0, out = 0;
    while (in < packed.size()) {
        const auto token = static_cast<uint8_t>(packed[in++]);
        size_t literals = token >> 4;
        if (!extend(packed, in, literals)) return false;
        if (literals > packed.size() - in || literals > plain.size() - out) return false;
        for (size_t i = 0; i < literals; ++i) plain[out++] = static_cast<char>(packed[in++]);
        if (in == packed.size()) break;  // the last sequence has no match
        if (packed.size() - in < 2) return false;
        const size_t distance = static_cast<uint8_t>(packed[in]) | static_cast<uint8_t>(packed[in + 1]) << 8;
        in += 2;
        size_t match = token & 15;
        if (!extend(packed, in, match)) return false;
        match += kMinMatch;
        if (distance == 0 || distance > out || match > plain.size() - out) return false;
        // Byte by byte: a match may overlap what it makes.
        for (size_t i = 0; i < match; ++i, ++out) plain[out] = plain[out - distance];
    }
    return out == plain.size();
}

}  // namespace softgpu::driver
