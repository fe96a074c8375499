#include "cufft/messages.h"

#include <algorithm>
#include <iterator>

namespace maths::cufft {
namespace {

constexpr int64_t bounded(uint64_t value) {
    return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
}

int64_t last_of(const Plan& plan) {
    return plan.rank - 1;
}

// Elements of a row's complex side: of a real transform the half that is not redundant.
int64_t complex_row(const Plan& plan) {
    const int64_t n = plan.n[last_of(plan)];
    return kind_of(plan) == Kind::complex ? n : n / 2 + 1;
}

Side side(const Plan& plan, const Layout& layout, bool is_real, bool in_place) {
    const int64_t last = last_of(plan);
    const int64_t row = is_real ? plan.n[last] : complex_row(plan);
    Side result{};
    result.count[0] = plan.batch;
    uint64_t apart = plan.advanced ? length(layout.stride) : 1;
    for (int64_t i = kMostDimensions - 1; i >= 0; --i) {
        const int64_t count = i == last ? row : i < last ? plan.n[i] : 1;
        result.count[1 + i] = count;
        result.step[1 + i] = count > 1 ? bounded(apart) : 0;
        if (i > last) continue;
        const int64_t dense = i == last && is_real && in_place ? 2 * complex_row(plan) : count;
        apart = product(apart, length(plan.advanced ? layout.embed[i] : dense));
    }
    if (plan.batch > 1) result.step[0] = plan.advanced ? layout.distance : bounded(apart);
    return result;
}

bool has_room(const Plan& plan, const Layout& layout, bool is_real) {
    if (layout.stride < 1 || layout.distance < 0) return false;
    for (int64_t i = 1; i <= last_of(plan); ++i) {  // the first one's room nobody asks for
        const int64_t count = i < last_of(plan) ? plan.n[i] : is_real ? plan.n[i] : complex_row(plan);
        if (layout.embed[i] < count) return false;
    }
    return true;
}

bool is_power_of_2(int64_t n) {
    return (n & (n - 1)) == 0;
}

bool types_fit(const Plan& plan) {
    const Type real = real_part(plan.execution_type);
    const bool known = real != kNoType && is_complex(plan.execution_type) &&
                       (is_complex(plan.input_type) || is_complex(plan.output_type));
    return known && real_part(plan.input_type) == real && real_part(plan.output_type) == real;
}

void show(Look& look, const char* name, uint64_t& address, int64_t type, const Side& side, Access access) {
    const uint64_t parts = product(span_of(side), is_complex(type) ? 2 : 1);
    look.memory(name, address, real_part(type), {true, parts}, access);
}

Fit look_at(Transform& m, Look& look) {
    if (m.direction != kForward && m.direction != kInverse) return Fit::invalid;
    const Fit fit = fit_of(m.plan);
    if (fit != Fit::fits) return fit;
    const bool in_place = m.input == m.output;
    show(look, "input", m.input, m.plan.input_type, input_of(m.plan, in_place), Access::kRead);
    show(look, "output", m.output, m.plan.output_type, output_of(m.plan, in_place), Access::kWrite);
    return look.fit();
}

}  // namespace

bool is_complex(int64_t type) {
    return type == kC16 || type == kCB16 || type == kC32 || type == kC64;
}

Type real_part(int64_t type) {
    switch (type) {
        case kF16:
        case kC16:
            return kF16;
        case kB16:
        case kCB16:
            return kB16;
        case kF32:
        case kC32:
            return kF32;
        case kF64:
        case kC64:
            return kF64;
        default:
            return kNoType;
    }
}

Kind kind_of(const Plan& plan) {
    if (!is_complex(plan.input_type)) return Kind::to_complex;
    return is_complex(plan.output_type) ? Kind::complex : Kind::to_real;
}

// Without room for its rows a transform would have more elements than memory, and compute for ever.
Fit fit_of(const Plan& plan) {
    if (plan.rank < 1 || plan.rank > kMostDimensions || plan.batch < 1 || (plan.advanced & ~1)) return Fit::invalid;
    for (int64_t i = 0; i < kMostDimensions; ++i) {
        if (plan.n[i] < 1 || (i >= plan.rank && plan.n[i] != 1) || plan.n[i] > INT64_MAX / 4) return Fit::invalid;
    }
    if (!types_fit(plan)) return Fit::unsupported;
    const bool room = has_room(plan, plan.input, !is_complex(plan.input_type)) &&
                      has_room(plan, plan.output, !is_complex(plan.output_type));
    if (plan.advanced && !room) return Fit::invalid;
    const bool half = bytes_of(real_part(plan.execution_type)) == 2;
    return half && !std::ranges::all_of(plan.n, is_power_of_2) ? Fit::unsupported : Fit::fits;
}

Side input_of(const Plan& plan, bool in_place) {
    return side(plan, plan.input, !is_complex(plan.input_type), in_place);
}

Side output_of(const Plan& plan, bool in_place) {
    return side(plan, plan.output, !is_complex(plan.output_type), in_place);
}

uint64_t span_of(const Side& side) {
    uint64_t span = 1;
    for (size_t i = 0; i < std::size(side.count); ++i) {
        span = sum(span, product(length(side.count[i]) - 1, length(side.step[i])));
    }
    return span;
}

const char* name_of(uint16_t function) {
    static constexpr const char* kNames[] = {"cufftExec"};
    return function < kFunctions ? kNames[function] : nullptr;
}

const char* fields_of(uint16_t function) {
    static constexpr const char* kFields[] = {"aannnnnnnnnnnnnnnnnnnnn"};
    static_assert(sizeof(Transform) == 23 * sizeof(uint64_t));
    return function < kFunctions ? kFields[function] : nullptr;
}

Fit look_at(uint16_t function, void* arguments, size_t bytes, Look& look) {
    if (function != kExec || bytes != sizeof(Transform)) return Fit::invalid;
    return look_at(*static_cast<Transform*>(arguments), look);
}

}  // namespace maths::cufft
