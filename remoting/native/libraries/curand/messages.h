// Random numbers on their way: which generator they come from, where it stands, what they are made into, and
// where they go. Every field has 64 bits.
#pragma once

#include <optional>

#include "operands.h"

namespace maths::curand {

enum Function : uint16_t {
    kGenerate = 0,         // Generate
    kGenerateTwister = 1,  // GenerateTwister
    kFunctions,
};

// curandRngType.
enum Kind : int64_t {
    kXorwow = 101,
    kMrg32k3a = 121,
    kMtgp32 = 141,
    kMt19937 = 142,
    kPhilox = 161,
    kSobol32 = 201,
    kScrambledSobol32 = 202,
    kSobol64 = 203,
    kScrambledSobol64 = 204,
};

// curandOrdering.
enum Ordering : int64_t {
    kBest = 100,
    kDefault = 101,
    kSeeded = 102,
    kLegacy = 103,
    kDynamic = 104,
    kQuasi = 201
};

enum Result : int64_t {
    kBits = 0,
    kLongBits,
    kUniform,
    kUniformDouble,
    kNormal,
    kNormalDouble,
    kLogNormal,
    kLogNormalDouble,
    kPoisson,
    kResults,
};

inline constexpr int64_t kMostDimensions = 20000;
inline constexpr double kMostPoisson = 400000;
inline constexpr int64_t kTwisterWords = 624;
// Of a call: the process itself passes over what a twister gives, about a nanosecond each.
inline constexpr int64_t kMostOfTwister = int64_t{1} << 33;

// What the program has set.
struct Settings {
    int64_t kind;
    int64_t ordering;
    uint64_t seed;
    uint64_t offset;
    int64_t dimensions;
};

// Where a generator stands. Its results come from its lanes in turn, which are sub-sequences far apart: those
// before `lane` have given `row + step` draws, the others `row`. Of a quasi-random one `row` is the point, in
// every dimension.
struct Position {
    uint64_t row;
    uint64_t lane;
    uint64_t step;
    uint64_t within;  // results that the next draw has given already

    bool operator==(const Position&) const = default;
};

struct Generate {
    uint64_t output;
    int64_t count;
    int64_t result;
    double first, second;  // mean and deviation; of a Poisson distribution lambda
    uint64_t number;       // of the generator in the program's process: NVIDIA's own is kept for it
    uint64_t offsets;      // that it was set to, one after another; of MT19937, seeds
    Settings settings;
    Position position;
};

// The Mersenne twister has no short way to the n-th number, so its state travels.
struct Twister {
    uint64_t used;  // of its words
    uint32_t words[kTwisterWords];
};
struct GenerateTwister {
    Generate call;
    Twister twister;
};

Type type_of(int64_t result);
constexpr bool is_quasi(int64_t kind) {
    return kind >= kSobol32;
}
constexpr bool is_wide(int64_t result) {
    return result == kUniformDouble || result == kNormalDouble || result == kLogNormalDouble ||
           result == kPoisson;
}
constexpr bool is_normal(int64_t result) {
    return result >= kNormal && result <= kLogNormalDouble;
}

// Lanes of a generator, draws of a lane for what it gives at a time, and how many results that is.
uint64_t lanes_of(const Settings& settings);
uint64_t draws_of(int64_t kind, int64_t result);
uint64_t results_of(int64_t kind, int64_t result);

Position start_of(const Settings& settings);
// Where a call begins: behind a row of which other results have taken more draws.
Position aligned(const Settings& settings, Position position, int64_t result);
// The offset that leads there. None does into a row whose lanes have given different numbers of draws, into a
// pair of normal numbers, or forward in a twister.
std::optional<uint64_t> offset_of(const Settings& settings, const Position& position);
Position behind(const Settings& settings, Position position, int64_t result, int64_t count);

Fit settings_fit(const Settings& settings);
// Whether so many results of it go together with the settings.
bool result_fits(int64_t kind, int64_t result);
bool count_fits(const Settings& settings, int64_t result, int64_t count);

// As generate.py makes them for other libraries.
const char* name_of(uint16_t function);
const char* fields_of(uint16_t function);
Fit look_at(uint16_t function, void* arguments, size_t bytes, Look& look);

}  // namespace maths::curand
