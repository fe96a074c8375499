#include "blake2b.h"

#include <bit>
#include <cstring>

namespace wire {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kInitial[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                  0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                  0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

constexpr uint8_t kSigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

void mix(uint64_t& a, uint64_t& b, uint64_t& c, uint64_t& d, uint64_t x, uint64_t y) {
    a += b + x;
    d = std::rotr(d ^ a, 32);
    c += d;
    b = std::rotr(b ^ c, 24);
    a += b + y;
    d = std::rotr(d ^ a, 16);
    c += d;
    b = std::rotr(b ^ c, 63);
}

// `end`: bytes of the message up to and with this block.
void compress(uint64_t (&state)[8], const uint8_t* block, uint64_t end, bool last) {
    uint64_t m[16];
    std::memcpy(m, block, sizeof m);
    uint64_t v[16];
    std::memcpy(v, state, sizeof state);
    std::memcpy(v + 8, kInitial, sizeof kInitial);
    v[12] ^= end;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 12; ++round) {
        const uint8_t* s = kSigma[round % 10];
        for (int i = 0; i < 4; ++i) mix(v[i], v[4 + i], v[8 + i], v[12 + i], m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; ++i) {
            mix(v[i], v[4 + (i + 1) % 4], v[8 + (i + 2) % 4], v[12 + (i + 3) % 4], m[s[8 + 2 * i]],
                m[s[9 + 2 * i]]);
        }
    }
    for (int i = 0; i < 8; ++i) state[i] ^= v[i] ^ v[i + 8];
}

}  // namespace

Digest blake2b(const void* data, size_t bytes) {
    constexpr size_t kBlock = 128;
    uint64_t state[8];
    std::memcpy(state, kInitial, sizeof state);
    state[0] ^= 0x01010000 ^ sizeof(Digest);
    const auto* from = static_cast<const uint8_t*>(data);
    size_t done = 0;
    for (; bytes - done > kBlock; done += kBlock) compress(state, from + done, done + kBlock, false);
    uint8_t block[kBlock] = {};
    if (bytes > done) std::memcpy(block, from + done, bytes - done);
    compress(state, block, bytes, true);
    Digest digest;
    std::memcpy(digest.bytes, state, sizeof digest.bytes);
    return digest;
}

}  // namespace wire
