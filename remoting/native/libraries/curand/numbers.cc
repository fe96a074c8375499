#include "curand/numbers.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <type_traits>
#include <vector>

#include "curand/engines.h"
#include "curand/sobol.h"

namespace maths::curand {
namespace {

constexpr uint64_t kBetweenLooks = 1 << 16;

// A normal number from a fraction in (0, 1): a first guess (Abramowitz and Stegun 26.2.23), and Halley's
// steps.
double normal_of(double fraction) {
    const double tail = std::min(fraction, 1 - fraction);
    if (!(tail > 0)) return fraction > 0.5 ? INFINITY : -INFINITY;
    const double t = std::sqrt(-2 * std::log(tail));
    double x = -t + (2.515517 + t * (0.802853 + t * 0.010328)) /
                        (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (int i = 0; i < 3; ++i) {
        const double error = 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2) - tail;
        const double step = error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
        x -= step / (1 + x * step / 2);
    }
    return fraction > 0.5 ? -x : x;
}

struct Pair {
    double first, second;
};
// Box and Muller (1958).
Pair normals_of(double radius, double angle) {
    const double r = std::sqrt(-2 * std::log(radius)), turn = 2 * std::numbers::pi * angle;
    return {r * std::sin(turn), r * std::cos(turn)};
}

// Counts of a Poisson distribution by its distribution function, which is kept where it is neither 0 nor 1.
class Poisson {
  public:
    explicit Poisson(double lambda) {
        const double reach = 12 * std::sqrt(lambda) + 60;
        first_ = static_cast<uint32_t>(std::max(0.0, std::floor(lambda - reach)));
        const auto last = static_cast<uint32_t>(lambda + reach);
        below_.reserve(last - first_ + 1);
        double below = 0;
        for (uint32_t k = first_; k <= last; ++k) {
            below += std::exp(k * std::log(lambda) - lambda - log_factorial(k));
            below_.push_back(below);
        }
    }
    uint32_t operator()(double fraction) const {
        const auto found = std::ranges::lower_bound(below_, fraction);
        const auto index = std::min<size_t>(static_cast<size_t>(found - below_.begin()), below_.size() - 1);
        return first_ + static_cast<uint32_t>(index);
    }

  private:
    static double log_factorial(uint32_t k) {
        int sign;
        return lgamma_r(k + 1.0, &sign);
    }

    uint32_t first_;
    std::vector<double> below_;
};

// What fractions and normal numbers are made into.
class Shape {
  public:
    explicit Shape(const Generate& call) : call_(call) {
        if (call.result == kPoisson) poisson_.emplace(call.first);
    }
    double operator()(double value) const {
        switch (call_.result) {
            case kNormal:
            case kNormalDouble:
                return call_.first + call_.second * value;
            case kLogNormal:
            case kLogNormalDouble:
                return std::exp(call_.first + call_.second * value);
            case kPoisson:
                return (*poisson_)(value);
            default:
                return value;
        }
    }

  private:
    const Generate& call_;
    std::optional<Poisson> poisson_;
};

// One result after another, of units of some results each, of which the first may have been begun.
template <typename Element, typename Unit>
void write_units(const Generate& call, void* output, const std::function<bool()>& stopped, Unit unit) {
    auto* to = static_cast<Element*>(output);
    auto left = static_cast<uint64_t>(call.count);
    const uint64_t together = results_of(call.settings.kind, call.result);
    uint64_t begun = call.position.within;
    Element results[4]{};
    for (uint64_t number = 0; left; ++number) {
        if (number % kBetweenLooks == 0 && stopped()) return;
        unit(number, results);
        const uint64_t some = std::min(together - begun, left);
        to = std::copy_n(results + begun, some, to);
        left -= some;
        begun = 0;
    }
}

// A source's next unit: one result, or two normal ones.
template <typename Source, typename Element>
void take(Source& from, const Generate& call, const Shape& shape, Element* to) {
    if (is_normal(call.result)) {
        const bool wide = is_wide(call.result);
        const double radius = wide ? from.twofold() : from.fine();
        const Pair pair = normals_of(radius, wide ? from.twofold() : from.fine());
        to[0] = static_cast<Element>(shape(pair.first));
        to[1] = static_cast<Element>(shape(pair.second));
    } else if (call.result == kBits) {
        to[0] = static_cast<Element>(from.bits());
    } else if (call.result == kUniform) {
        to[0] = static_cast<Element>(from.single());
    } else {
        to[0] = static_cast<Element>(shape(from.twofold()));
    }
}

// The words of draws that were made, as a source.
struct Words {
    const uint32_t* next;
    uint32_t bits() { return *next++; }
    float single() { return static_cast<float>(bits()) * 0x1p-32f + 0x1p-33f; }
    double fine() { return fraction(bits()); }
    double twofold() {
        const uint32_t low = bits();
        return fraction(low, bits());
    }
};

template <typename Element>
void take(Philox& from, const Generate& call, const Shape& shape, Element* to) {
    std::array<uint32_t, 8> words;
    for (uint64_t i = 0; i < draws_of(kPhilox, call.result); ++i)
        std::ranges::copy(from.block(), words.begin() + 4 * i);
    Words source{words.data()};
    for (int i = 0; i < 4; i += is_normal(call.result) ? 2 : 1) take(source, call, shape, to + i);
}

// A lane's place for each that the call draws from, in turn.
template <typename Source>
std::vector<Source> lanes(const Generate& call) {
    const Settings& settings = call.settings;
    const uint64_t all = lanes_of(settings), together = results_of(settings.kind, call.result);
    const uint64_t units =
        (call.position.within + static_cast<uint64_t>(call.count) + together - 1) / together;
    std::vector<Source> sources;
    sources.reserve(std::min(all, units));
    const auto at = [&](uint64_t lane, uint64_t row) {
        // A seed of its own for each lane.
        const bool is_seeded = settings.ordering == kSeeded;
        Source source(is_seeded ? settings.seed + lane * 0x9e3779b97f4a7c15 : settings.seed);
        source.skip(row);
        if (!is_seeded) source.skip_lanes(lane);
        return source;
    };
    while (sources.size() < std::min(all, units)) {
        const uint64_t lane = (call.position.lane + sources.size()) % all;
        const bool is_behind = lane != 0 && !sources.empty() && settings.ordering != kSeeded;
        const bool is_next_row = lane < call.position.lane;
        const uint64_t row = call.position.row + (is_next_row ? draws_of(settings.kind, call.result) : 0);
        sources.push_back(is_behind ? sources.back() : at(lane, row));
        if (is_behind) sources.back().next_lane();
    }
    return sources;
}

template <typename Element, typename Source>
void write_lanes(const Generate& call, void* output, const std::function<bool()>& stopped) {
    std::vector<Source> sources = lanes<Source>(call);
    const Shape shape(call);
    size_t next = 0;
    write_units<Element>(call, output, stopped, [&](uint64_t, Element* to) {
        take(sources[next], call, shape, to);
        next = next + 1 < sources.size() ? next + 1 : 0;
    });
}

// A point as a fraction: of a normal number never 0 or 1.
double fraction_of(uint32_t point, int64_t result) {
    if (is_normal(result)) return fraction(point);
    return is_wide(result) ? (point + 1.0) * 0x1p-32 : static_cast<float>(point) * 0x1p-32f + 0x1p-33f;
}
double fraction_of(uint64_t point, int64_t result) {
    if (!is_wide(result)) return fraction_of(static_cast<uint32_t>(point >> 32), result);
    return static_cast<double>(point >> 11) * 0x1p-53 + 0x1p-54;
}

template <typename Element, typename Word>
void write_points(const Generate& call, void* output, const std::function<bool()>& stopped) {
    auto* to = static_cast<Element*>(output);
    const Shape shape(call);
    const int64_t points = call.count / call.settings.dimensions;
    for (int64_t dimension = 0; points && dimension < call.settings.dimensions; ++dimension) {
        Sobol<Word> sequence(static_cast<size_t>(dimension), call.position.row);
        for (int64_t i = 0; i < points; ++i) {
            if (static_cast<uint64_t>(i) % kBetweenLooks == 0 && stopped()) return;
            const Word point = sequence.next();
            if (call.result == kBits || call.result == kLongBits) {
                *to++ = static_cast<Element>(point);
            } else {
                const double fraction = fraction_of(point, call.result);
                *to++ = static_cast<Element>(shape(is_normal(call.result) ? normal_of(fraction) : fraction));
            }
        }
    }
}

template <typename Element>
void write_as(const Generate& call, void* output, const std::function<bool()>& stopped) {
    switch (call.settings.kind) {
        case kXorwow:
            return write_lanes<Element, Xorwow>(call, output, stopped);
        case kMrg32k3a:
            return write_lanes<Element, Mrg32k3a>(call, output, stopped);
        case kPhilox:
            return write_lanes<Element, Philox>(call, output, stopped);
        case kSobol32:
            return write_points<Element, uint32_t>(call, output, stopped);
        case kSobol64:
            return write_points<Element, uint64_t>(call, output, stopped);
        default:
            return;
    }
}

// Calls `body` with a value of the results' type.
template <typename Body>
void of_type(int64_t result, Body body) {
    switch (result) {
        case kBits:
        case kPoisson:
            return body(uint32_t{});
        case kLongBits:
            return body(uint64_t{});
        case kUniform:
        case kNormal:
        case kLogNormal:
            return body(float{});
        default:
            return body(double{});
    }
}

}  // namespace

void write_numbers(const Generate& call, void* output, const std::function<bool()>& stopped) {
    of_type(call.result, [&]<typename Element>(Element) { write_as<Element>(call, output, stopped); });
}

void write_numbers(const GenerateTwister& call, void* output, const std::function<bool()>& stopped) {
    Twister twister = call.twister;
    Mt19937 source(twister);
    const Shape shape(call.call);
    of_type(call.call.result, [&]<typename Element>(Element) {
        write_units<Element>(call.call, output, stopped,
                             [&](uint64_t, Element* to) { take(source, call.call, shape, to); });
    });
}

uint64_t room_for(const Generate& call) {
    constexpr uint64_t kLane = std::max({sizeof(Xorwow), sizeof(Mrg32k3a), sizeof(Philox)}), kTable = 1 << 18;
    return std::min(lanes_of(call.settings), static_cast<uint64_t>(call.count)) * kLane +
           (call.result == kPoisson ? kTable : 0);
}

void pass_over(Twister& twister, int64_t result, int64_t count) {
    const auto words = static_cast<uint64_t>(count);  // one each, also of two normal ones
    Mt19937(twister).skip(is_wide(result) ? 2 * words : words);
}

}  // namespace maths::curand
