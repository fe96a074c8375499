#include "cufft_cpu.h"

#include <ducc0/fft/fft.h>

#include <algorithm>
#include <stdexcept>

#include "number.h"

namespace maths::cufft {
namespace {

// Batches that are done at a time, between two looks at whether the work was interrupted, have no more elements.
constexpr int64_t kMostAtOnce = 1 << 21;

int64_t elements_of(const Side& side) {
    int64_t all = 1;
    for (const int64_t count : side.count) all *= count;
    return all;
}

// `batches` of a side, one behind another without gaps.
Side dense(Side side, int64_t batches) {
    side.count[0] = batches;
    int64_t apart = 1;
    for (int i = kMostDimensions; i >= 0; --i) {
        side.step[i] = apart;
        apart *= side.count[i];
    }
    return side;
}

template <typename Body>
void each(const Side& side, Body body) {
    int64_t dense = 0;
    for (int64_t b = 0; b < side.count[0]; ++b) {
        for (int64_t i = 0; i < side.count[1]; ++i) {
            for (int64_t j = 0; j < side.count[2]; ++j) {
                const int64_t row = b * side.step[0] + i * side.step[1] + j * side.step[2];
                for (int64_t k = 0; k < side.count[3]; ++k) body(dense++, row + k * side.step[3]);
            }
        }
    }
}

// Numbers of memory as `Real`s, the parts of complex ones one by one.
template <typename Real>
Real read(Type type, const void* from, int64_t i) {
    if (type == kF16) return from_half(element<uint16_t>(from, i));
    if (type == kB16) return from_bfloat(element<uint16_t>(from, i));
    return element<Real>(from, i);
}
template <typename Real>
void write(Type type, void* to, int64_t i, Real value) {
    if (type == kF16) return set_element(to, i, to_half(static_cast<float>(value)));
    if (type == kB16) return set_element(to, i, to_bfloat(static_cast<float>(value)));
    set_element(to, i, value);
}

int64_t largest_prime_of(int64_t n) {
    int64_t largest = 1;
    for (int64_t prime = 2; prime * prime <= n; ++prime) {
        for (; n % prime == 0; n /= prime) largest = prime;
    }
    return std::max(largest, n);
}

ducc0::fmav_info::shape_t shape_of(const Side& side) {
    return {side.count, side.count + std::size(side.count)};
}
ducc0::fmav_info::stride_t strides_of(const Side& side) {
    return {side.step, side.step + std::size(side.step)};
}

// What ducc0 takes at most for transforms of `lines` lines of `length` complex numbers, in such numbers:
// plans (for a large prime factor those of a convolution), and for each thread as many lines as a vector has
// numbers and what they work in. Bounds of what it was seen to allocate, with and without gaps, in single and
// double precision.
uint64_t working_numbers(int64_t length, int64_t lines, unsigned threads) {
    constexpr int64_t kLargePrime = 110, kVector = 4, kLists = 256;
    const bool has_large_prime = largest_prime_of(length) >= kLargePrime;
    const int64_t of_plans = has_large_prime ? 6 : 4, of_line = has_large_prime ? 8 : 4;
    const int64_t of_thread = 1 + of_line * std::min(lines, kVector);
    const int64_t at_once = std::clamp<int64_t>(lines / 2, 1, threads);
    const uint64_t numbers = product(maths::length(length), maths::length(of_plans + at_once * of_thread));
    return sum(numbers, maths::length(at_once * kLists));
}

// A part of a transform's batches, computed in `Real`.
template <typename Real>
class Batches {
  public:
    Batches(const Transform& m, const Work& work)
        : m_(m),
          input_(input_of(m.plan, m.input == m.output)),
          output_(output_of(m.plan, m.input == m.output)),
          type_(real_part(m.plan.execution_type)),
          threads_(work.threads()) {}

    int64_t at_once() const {
        Side one = kind_of(m_.plan) == Kind::to_real ? output_ : input_;
        one.count[0] = 1;
        return std::max<int64_t>(1, kMostAtOnce / elements_of(one));
    }

    // To work in, beside the operands.
    uint64_t room() const {
        const Part part = part_of(0, std::min(at_once(), m_.plan.batch));
        const auto input = static_cast<uint64_t>(elements_of(part.input)),
                   output = static_cast<uint64_t>(elements_of(part.output));
        const int64_t all = std::max(elements_of(part.input), elements_of(part.output));
        uint64_t numbers = 0;
        for (int64_t i = 1; i <= m_.plan.rank; ++i) {
            const int64_t n = std::max(part.input.count[i], part.output.count[i]);
            numbers =
                std::max(numbers, working_numbers(n, (all + n - 1) / n, static_cast<unsigned>(threads_)));
        }
        // With more dimensions it transforms the other ones first, and keeps its input as it is.
        if (kind_of(m_.plan) == Kind::to_real && m_.plan.rank > 1) numbers = sum(numbers, input);
        // All parts are done as the first one, unless they come to overlap.
        if (!is_direct(part_of(0, m_.plan.batch))) numbers = sum(numbers, sum(input, output));
        return product(numbers, sizeof(std::complex<Real>));
    }

    void run(int64_t first, int64_t count) {
        const Part part = part_of(first, count);
        if (is_direct(part)) {
            transform(at<Real>(part.from), part.input, at<Real>(part.to), part.output);
        } else {
            through_own_memory(at<void>(part.from), part.input, at<void>(part.to), part.output);
        }
    }

  private:
    struct Part {
        Side input, output;
        uint64_t from, to;
    };
    Part part_of(int64_t first, int64_t count) const {
        Part part{input_, output_, 0, 0};
        part.input.count[0] = part.output.count[0] = count;
        part.from = place(m_.input, m_.plan.input_type, part.input, first);
        part.to = place(m_.output, m_.plan.output_type, part.output, first);
        return part;
    }
    // What is read in place is there no more when it is written: only elements that keep their places may be.
    bool is_direct(const Part& part) const {
        const bool apart = part.from + bytes(m_.plan.input_type, part.input) <= part.to ||
                           part.to + bytes(m_.plan.output_type, part.output) <= part.from;
        const bool stays = part.from == part.to && kind_of(m_.plan) == Kind::complex &&
                           std::ranges::equal(part.input.step, part.output.step);
        return bytes_of(type_) == sizeof(Real) && (apart || stays);
    }
    static int64_t parts_of(int64_t type) { return is_complex(type) ? 2 : 1; }
    uint64_t bytes(int64_t type, const Side& side) const {
        return span_of(side) * static_cast<uint64_t>(parts_of(type)) * bytes_of(type_);
    }
    uint64_t place(uint64_t address, int64_t type, const Side& side, int64_t batch) const {
        return address + static_cast<uint64_t>(batch * side.step[0] * parts_of(type)) * bytes_of(type_);
    }

    void through_own_memory(const void* from, const Side& input, void* to, const Side& output) {
        const int64_t in_parts = parts_of(m_.plan.input_type), out_parts = parts_of(m_.plan.output_type);
        const Side own_input = dense(input, input.count[0]), own_output = dense(output, output.count[0]);
        std::vector<Real> read_in(static_cast<size_t>(elements_of(input) * in_parts));
        std::vector<Real> results(static_cast<size_t>(elements_of(output) * out_parts));
        each(input, [&](int64_t own, int64_t its) {
            for (int64_t part = 0; part < in_parts; ++part) {
                read_in[static_cast<size_t>(own * in_parts + part)] = read<Real>(type_, from, its * in_parts + part);
            }
        });
        transform(read_in.data(), own_input, results.data(), own_output);
        each(output, [&](int64_t own, int64_t its) {
            for (int64_t part = 0; part < out_parts; ++part) {
                write(type_, to, its * out_parts + part, results[static_cast<size_t>(own * out_parts + part)]);
            }
        });
    }

    void transform(Real* from, const Side& input, Real* to, const Side& output) const {
        using Complex = std::complex<Real>;
        ducc0::fmav_info::shape_t axes;
        for (int64_t i = 0; i < m_.plan.rank; ++i) axes.push_back(static_cast<size_t>(1 + i));
        const bool forward = m_.direction == kForward;
        const auto in = [&]<typename T>(T* data) { return ducc0::cfmav<T>(data, shape_of(input), strides_of(input)); };
        const auto out = [&]<typename T>(T* data) { return ducc0::vfmav<T>(data, shape_of(output), strides_of(output)); };
        auto* const complex_from = reinterpret_cast<Complex*>(from);
        auto* const complex_to = reinterpret_cast<Complex*>(to);
        switch (kind_of(m_.plan)) {
            case Kind::complex:
                return ducc0::c2c(in(complex_from), out(complex_to), axes, forward, Real(1), threads_);
            case Kind::to_complex:
                return ducc0::r2c(in(from), out(complex_to), axes, true, Real(1), threads_);
            case Kind::to_real:
                return ducc0::c2r(in(complex_from), out(to), axes, false, Real(1), threads_);
        }
    }

    const Transform& m_;
    const Side input_, output_;
    const Type type_;
    const size_t threads_;
};

template <typename Real>
void run_all(const Transform& m, Work& work) {
    Batches<Real> batches(m, work);
    const int64_t at_once = batches.at_once();
    work.reserve(batches.room());
    for (int64_t first = 0; first < m.plan.batch && !work.stopped();) {
        const int64_t count = std::min(at_once, m.plan.batch - first);
        batches.run(first, count);
        first += count;
    }
}

}  // namespace

CUresult run_function(uint16_t function, void* arguments, Work& work) {
    if (function != kExec) return CUDA_ERROR_NOT_SUPPORTED;
    const auto& m = *static_cast<const Transform*>(arguments);
    try {
        if (m.plan.execution_type == kC64) {
            run_all<double>(m, work);
        } else {
            run_all<float>(m, work);
        }
    } catch (const std::runtime_error& error) {
        work.fail(CUDA_ERROR_LAUNCH_FAILED, error.what());
    }
    return CUDA_SUCCESS;
}

}  // namespace maths::cufft
