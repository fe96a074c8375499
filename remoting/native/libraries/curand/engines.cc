#include "curand/engines.h"

#include <cstring>
#include <vector>

namespace maths::curand {
namespace {

// XORWOW's five words in a column of 160 bits: one step is a matrix over them.
using Bits = std::array<uint32_t, 5>;
using BitMatrix = std::array<Bits, 160>;  // by columns

Bits times(const BitMatrix& matrix, const Bits& vector) {
    Bits result{};
    for (size_t word = 0; word < vector.size(); ++word) {
        for (uint32_t left = vector[word]; left; left &= left - 1) {
            const Bits& column = matrix[32 * word + static_cast<size_t>(__builtin_ctz(left))];
            for (size_t i = 0; i < result.size(); ++i) result[i] ^= column[i];
        }
    }
    return result;
}

BitMatrix squared(const BitMatrix& matrix) {
    BitMatrix result;
    for (size_t i = 0; i < matrix.size(); ++i) result[i] = times(matrix, matrix[i]);
    return result;
}

BitMatrix xorwow_step() {
    BitMatrix step{};
    for (size_t i = 0; i < step.size(); ++i) {
        Bits x{};
        x[i / 32] = uint32_t{1} << i % 32;
        const uint32_t t = x[0] ^ x[0] >> 2;
        step[i] = {x[1], x[2], x[3], x[4], x[4] ^ x[4] << 4 ^ t ^ t << 1};
    }
    return step;
}

// What a number of steps is that 64 bits hold, and what as many lanes are as a generator has.
constexpr size_t kLaneBits = 17;

template <typename Matrix, size_t kLane>
struct Powers {
    std::vector<Matrix> steps;  // the 2^i-th
    explicit Powers(Matrix step) {
        for (size_t i = 0; i < kLane + kLaneBits; ++i) {
            steps.push_back(step);
            step = squared(step);
        }
    }
    template <typename Vector>
    void apply(uint64_t count, size_t from, Vector& vector) const {
        for (; count && from < steps.size(); count >>= 1, ++from) {
            if (count & 1) vector = times(steps[from], vector);
        }
    }
};

using XorwowPowers = Powers<BitMatrix, 67>;
const XorwowPowers& xorwow() {
    static const auto* const powers = new XorwowPowers(xorwow_step());
    return *powers;
}

using Three = Mrg32k3a::Three;
template <uint64_t kModulus>
struct Residues {
    std::array<Three, 3> rows;
};

template <uint64_t kModulus>
Three times(const Residues<kModulus>& matrix, const Three& vector) {
    Three result{};
    for (size_t i = 0; i < 3; ++i) {
        uint64_t all = 0;
        for (size_t k = 0; k < 3; ++k) all = (all + matrix.rows[i][k] * vector[k] % kModulus) % kModulus;
        result[i] = all;
    }
    return result;
}

template <uint64_t kModulus>
Residues<kModulus> squared(const Residues<kModulus>& matrix) {
    Residues<kModulus> result;
    for (size_t column = 0; column < 3; ++column) {
        const Three product =
            times(matrix, {matrix.rows[0][column], matrix.rows[1][column], matrix.rows[2][column]});
        for (size_t i = 0; i < 3; ++i) result.rows[i][column] = product[i];
    }
    return result;
}

using FirstPowers = Powers<Residues<Mrg32k3a::kFirst>, 76>;
using SecondPowers = Powers<Residues<Mrg32k3a::kSecond>, 76>;
const FirstPowers& mrg_first() {
    static const auto* const powers =
        new FirstPowers({{{{0, 1, 0}, {0, 0, 1}, {Mrg32k3a::kFirst - 810728, 1403580, 0}}}});
    return *powers;
}
const SecondPowers& mrg_second() {
    static const auto* const powers =
        new SecondPowers({{{{0, 1, 0}, {0, 0, 1}, {Mrg32k3a::kSecond - 1370589, 0, 527612}}}});
    return *powers;
}

}  // namespace

// The start that Marsaglia's article gives, with the seed's two halves mixed into it.
Xorwow::Xorwow(uint64_t seed) {
    const uint32_t low = 1099087573 * (static_cast<uint32_t>(seed) ^ 0xaad26b49);
    const uint32_t high = 2591861531 * (static_cast<uint32_t>(seed >> 32) ^ 0xf7dcefdd);
    x_ = {123456789 + low, 362436069 ^ low, 521288629 + high, 88675123 ^ high, 5783321 + low};
    weyl_ = 6615241 + low + high;
}

void Xorwow::skip(uint64_t draws) {
    xorwow().apply(draws, 0, x_);
    weyl_ += static_cast<uint32_t>(draws) * kWeyl;
}

// 2^67 steps of the other summand are none.
void Xorwow::skip_lanes(uint64_t lanes) {
    xorwow().apply(lanes, 67, x_);
}

void Xorwow::next_lane() {
    x_ = times(xorwow().steps[67], x_);
}

// L'Ecuyer's start is 12345 six times.
Mrg32k3a::Mrg32k3a(uint64_t seed) {
    const uint64_t low = seed ? static_cast<uint32_t>(seed) ^ 0x55555555 : 1;
    const uint64_t high = seed ? static_cast<uint32_t>(seed >> 32) ^ 0xaaaaaaaa : 1;
    first_ = {low * 12345 % kFirst, high * 12345 % kFirst, low * 12345 % kFirst};
    second_ = {high * 12345 % kSecond, low * 12345 % kSecond, high * 12345 % kSecond};
}

void Mrg32k3a::skip(uint64_t draws) {
    mrg_first().apply(draws, 0, first_);
    mrg_second().apply(draws, 0, second_);
}

void Mrg32k3a::skip_lanes(uint64_t lanes) {
    mrg_first().apply(lanes, 76, first_);
    mrg_second().apply(lanes, 76, second_);
}

void Mrg32k3a::next_lane() {
    first_ = times(mrg_first().steps[76], first_);
    second_ = times(mrg_second().steps[76], second_);
}

std::array<uint32_t, 4> Philox::block() {
    const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
    const auto high = [](uint64_t value) { return static_cast<uint32_t>(value >> 32); };
    std::array<uint32_t, 4> c = {low(draw_), high(draw_), low(lane_), high(lane_)};
    uint32_t k0 = low(seed_), k1 = high(seed_);
    for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9, k1 += 0xbb67ae85) {
        const uint64_t p = uint64_t{0xd2511f53} * c[0], q = uint64_t{0xcd9e8d57} * c[2];
        c = {high(q) ^ c[1] ^ k0, low(q), high(p) ^ c[3] ^ k1, low(p)};
    }
    ++draw_;
    return c;
}

Twister Mt19937::seeded(uint64_t seed) {
    Twister twister{};
    uint32_t word = static_cast<uint32_t>(seed ^ (seed >> 32) * 0x9e3779b9);
    for (uint32_t i = 0; i < kTwisterWords; ++i) {
        if (i) word = 1812433253 * (word ^ word >> 30) + i;
        twister.words[i] = word;
    }
    twister.used = kTwisterWords;
    return twister;
}

void Mt19937::refill() {
    constexpr uint32_t kMiddle = 397, kAll = kTwisterWords;
    uint32_t* const x = state_.words;
    for (uint32_t i = 0; i < kAll; ++i) {
        const uint32_t y = (x[i] & 0x80000000) | (x[(i + 1) % kAll] & 0x7fffffff);
        x[i] = x[(i + kMiddle) % kAll] ^ y >> 1 ^ (y & 1 ? 0x9908b0df : 0);
    }
    state_.used = 0;
}

uint32_t Mt19937::bits() {
    if (state_.used >= kTwisterWords) refill();
    uint32_t y = state_.words[state_.used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680;
    y ^= y << 15 & 0xefc60000;
    return y ^ y >> 18;
}

void Mt19937::skip(uint64_t words) {
    uint64_t left = kTwisterWords - state_.used;
    for (; words > left; left = kTwisterWords) {
        words -= left;
        refill();
    }
    state_.used += words;
}

}  // namespace maths::curand
