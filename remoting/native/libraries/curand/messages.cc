#include "curand/messages.h"

namespace maths::curand {
namespace {

bool ordering_fits(const Settings& settings) {
    const int64_t ordering = settings.ordering;
    if (is_quasi(settings.kind)) return ordering == kQuasi;
    if (settings.kind == kMt19937) return ordering == kDefault || ordering == kLegacy;
    if (ordering == kSeeded) return settings.kind == kXorwow;
    return ordering == kBest || ordering == kDefault || ordering == kLegacy || ordering == kDynamic;
}

Fit look_at(Generate& m, Look& look) {
    const Fit fit = settings_fit(m.settings);
    if (fit != Fit::fits) return fit;
    if (m.result < 0 || m.result >= kResults || !result_fits(m.settings.kind, m.result)) return Fit::invalid;
    if (!count_fits(m.settings, m.result, m.count)) return Fit::invalid;
    // Also where a number is none.
    if (m.result == kPoisson && !(m.first > 0 && m.first <= kMostPoisson)) return Fit::invalid;
    const Position& position = m.position;
    const bool stands = position.lane < lanes_of(m.settings) && position.step <= 4 &&
                        position.within < results_of(m.settings.kind, m.result);
    if (!stands) return Fit::invalid;
    look.memory("output", m.output, type_of(m.result), exactly(m.count), Access::kWrite);
    return look.fit();
}

}  // namespace

Type type_of(int64_t result) {
    switch (result) {
        case kBits:
        case kPoisson:
            return kI32;
        case kLongBits:
            return kI64;
        case kUniform:
        case kNormal:
        case kLogNormal:
            return kF32;
        default:
            return kF64;
    }
}

uint64_t lanes_of(const Settings& settings) {
    switch (settings.kind) {
        case kXorwow:
            return 4096;
        case kMrg32k3a:
            return settings.ordering == kLegacy ? 4096 : 81920;
        case kPhilox:
            return 65536;
        default:
            return 1;
    }
}

uint64_t draws_of(int64_t kind, int64_t result) {
    switch (kind) {
        case kXorwow:
            return (is_wide(result) ? 2 : 1) * (is_normal(result) ? 2 : 1);
        case kMrg32k3a:
            return is_normal(result) ? 2 : 1;
        case kPhilox:
            return is_wide(result) ? 2 : 1;  // of four words each
        default:
            return 1;
    }
}

uint64_t results_of(int64_t kind, int64_t result) {
    if (is_quasi(kind)) return 1;
    if (kind == kPhilox) return 4;
    return is_normal(result) ? 2 : 1;
}

Position start_of(const Settings& settings) {
    const uint64_t together = settings.kind == kPhilox ? 4 : 1;
    const uint64_t draws = settings.offset / together, lanes = lanes_of(settings);
    return {draws / lanes, draws % lanes, 1, settings.offset % together};
}

std::optional<uint64_t> offset_of(const Settings& settings, const Position& position) {
    if (is_quasi(settings.kind)) return position.row;
    const bool is_begun = position.lane != 0 || position.within != 0;
    if (settings.kind == kMt19937)
        return position.row == 0 && !is_begun ? std::optional<uint64_t>(0) : std::nullopt;
    if (is_begun && position.step > 1) return {};
    const uint64_t draws = position.row * lanes_of(settings) + position.lane;
    if (settings.kind == kPhilox) return 4 * draws + position.within;
    return position.within == 0 ? std::optional<uint64_t>(draws) : std::nullopt;
}

Position aligned(const Settings& settings, Position position, int64_t result) {
    const bool begun = position.lane != 0 || position.within != 0;
    const bool overlaps = begun && position.step > draws_of(settings.kind, result);
    return overlaps ? Position{position.row + position.step, 0, 0, 0} : position;
}

Position behind(const Settings& settings, Position position, int64_t result, int64_t count) {
    if (is_quasi(settings.kind)) {
        position.row += static_cast<uint64_t>(count / settings.dimensions);
        return position;
    }
    const uint64_t together = results_of(settings.kind, result), lanes = lanes_of(settings);
    const uint64_t results = position.within + static_cast<uint64_t>(count);
    const uint64_t units = position.lane + results / together;
    const uint64_t draws = draws_of(settings.kind, result);
    return {position.row + units / lanes * draws, units % lanes, draws, results % together};
}

Fit settings_fit(const Settings& settings) {
    switch (settings.kind) {
        case kXorwow:
        case kMrg32k3a:
        case kPhilox:
        case kMt19937:
        case kSobol32:
        case kSobol64:
            break;
        case kMtgp32:
        case kScrambledSobol32:
        case kScrambledSobol64:
            return Fit::unsupported;
        default:
            return Fit::invalid;
    }
    const bool dimensions = settings.dimensions >= 1 && settings.dimensions <= kMostDimensions &&
                            (is_quasi(settings.kind) || settings.dimensions == 1);
    return dimensions && ordering_fits(settings) ? Fit::fits : Fit::invalid;
}

bool result_fits(int64_t kind, int64_t result) {
    if (result == kLongBits) return kind == kSobol64;
    return result != kBits || kind != kSobol64;
}

bool count_fits(const Settings& settings, int64_t result, int64_t count) {
    if (count < 0 || count % settings.dimensions != 0) return false;
    const bool in_pairs = is_normal(result) && !is_quasi(settings.kind) && settings.kind != kPhilox;
    return !in_pairs || count % 2 == 0;
}

const char* name_of(uint16_t function) {
    static constexpr const char* kNames[] = {"curandGenerate", "curandGenerate"};
    return function < kFunctions ? kNames[function] : nullptr;
}

// The words of a twister are no sizes; a fuzzer's frame has them from its own hand.
const char* fields_of(uint16_t function) {
    static constexpr const char* kFields[] = {"annnnnnnnnnnnnnn", ""};
    static_assert(sizeof(Generate) == 16 * sizeof(uint64_t));
    return function < kFunctions ? kFields[function] : nullptr;
}

Fit look_at(uint16_t function, void* arguments, size_t bytes, Look& look) {
    switch (function) {
        case kGenerate: {
            if (bytes != sizeof(Generate)) return Fit::invalid;
            auto& m = *static_cast<Generate*>(arguments);
            return m.settings.kind == kMt19937 ? Fit::invalid : look_at(m, look);
        }
        case kGenerateTwister: {
            if (bytes != sizeof(GenerateTwister)) return Fit::invalid;
            auto& m = *static_cast<GenerateTwister*>(arguments);
            const bool fits = m.call.settings.kind == kMt19937 && m.twister.used <= kTwisterWords;
            return fits ? look_at(m.call, look) : Fit::invalid;
        }
        default:
            return Fit::invalid;
    }
}

}  // namespace maths::curand
