// The sequences behind the generators, each from its authors' publication: XORWOW (Marsaglia 2003), MRG32k3a
// (L'Ecuyer 1999), Philox4x32-10 (Salmon and others 2011), MT19937 (Matsumoto and Nishimura 1998). A draw is
// what a lane gives at a time. How a seed begins the first two, and how MRG32k3a's numbers become bits, is in
// no publication: those numbers are of public implementations, and checked against NVIDIA's library
// (tests/libraries/curand_known.json).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "curand/messages.h"

namespace maths::curand {

// Of one word: 32 bits as a number above 0.
constexpr double fraction(uint32_t word) {
    return word * 0x1p-32 + 0x1p-33;
}
// Of two words: 53 bits.
constexpr double fraction(uint32_t low, uint32_t high) {
    return static_cast<double>(low ^ static_cast<uint64_t>(high) << 21) * 0x1p-53 + 0x1p-54;
}

// The 2^67-th number is the first of the next lane.
class Xorwow {
  public:
    explicit Xorwow(uint64_t seed);
    void skip(uint64_t draws);
    void skip_lanes(uint64_t lanes);
    void next_lane();

    uint32_t bits() {
        const uint32_t t = x_[0] ^ x_[0] >> 2;
        x_ = {x_[1], x_[2], x_[3], x_[4], x_[4] ^ x_[4] << 4 ^ t ^ t << 1};
        return x_[4] + (weyl_ += kWeyl);
    }
    float single() { return static_cast<float>(bits()) * 0x1p-32f + 0x1p-33f; }
    double fine() { return fraction(bits()); }
    double twofold() {
        const uint32_t low = bits();
        return fraction(low, bits());
    }

  private:
    static constexpr uint32_t kWeyl = 362437;
    std::array<uint32_t, 5> x_;
    uint32_t weyl_;
};

// The 2^76-th number is the first of the next lane.
class Mrg32k3a {
  public:
    using Three = std::array<uint64_t, 3>;
    static constexpr uint64_t kFirst = 4294967087, kSecond = 4294944443;

    explicit Mrg32k3a(uint64_t seed);
    void skip(uint64_t draws);
    void skip_lanes(uint64_t lanes);
    void next_lane();

    // The largest draw comes out just above 2^32.
    uint32_t bits() {
        return static_cast<uint32_t>(std::min(static_cast<double>(draw()) * kToBits, 4294967295.0));
    }
    float single() { return static_cast<float>(fine()); }
    double fine() { return static_cast<double>(draw()) * kToFraction; }
    double twofold() { return fine(); }

  private:
    static constexpr double kToFraction = 1.0 / kFirst;
    static constexpr double kToBits = 1.000000048662;

    // In 1..kFirst.
    uint64_t draw() {
        const uint64_t a = (1403580 * first_[1] + 810728 * (kFirst - first_[0])) % kFirst;
        const uint64_t b = (527612 * second_[2] + 1370589 * (kSecond - second_[0])) % kSecond;
        first_ = {first_[1], first_[2], a};
        second_ = {second_[1], second_[2], b};
        return a > b ? a - b : a + kFirst - b;
    }

    Three first_, second_;
};

// Four words at a time, of a counter: its low half is the draw, its high half the lane.
class Philox {
  public:
    explicit Philox(uint64_t seed) : seed_(seed) {}
    void skip(uint64_t draws) { draw_ += draws; }
    void skip_lanes(uint64_t lanes) { lane_ += lanes; }
    void next_lane() { ++lane_; }

    std::array<uint32_t, 4> block();

  private:
    uint64_t seed_, draw_ = 0, lane_ = 0;
};

// In one lane.
class Mt19937 {
  public:
    explicit Mt19937(Twister& twister) : state_(twister) {}
    static Twister seeded(uint64_t seed);

    uint32_t bits();
    float single() { return static_cast<float>(bits()) * 0x1p-32f + 0x1p-33f; }
    double fine() { return fraction(bits()); }
    double twofold() {
        const uint32_t low = bits();
        return fraction(low, bits());
    }
    void skip(uint64_t words);

  private:
    void refill();

    Twister& state_;
};

}  // namespace maths::curand
