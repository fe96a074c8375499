// The loss of connectionist temporal classification (Graves and others, 2006): the probability of all ways
// through the steps that give a sequence's labels, where repeats are one and blanks are left out.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "dnn/dnn_cpu.h"
#include "dnn/tensors.h"

namespace maths::cudnn {
namespace {

constexpr int32_t kBlank = 0;
constexpr double kNever = -std::numeric_limits<double>::infinity();  // the logarithm of 0
using Numbers = std::vector<double>;

double log_sum(double a, double b) {
    if (a == kNever) return b;
    if (b == kNever) return a;
    return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

// What steers is copied from the slice before it is looked at.
std::vector<int32_t> copied(const char* name, uint64_t address, int64_t count, int64_t most,
                            const Work& work) {
    std::vector<int32_t> own(static_cast<size_t>(count));
    if (count > 0) std::memcpy(own.data(), at<const void>(address), own.size() * sizeof own[0]);
    for (const int32_t each : own) {
        if (each >= 0 && each <= most) continue;
        work.fail(CUDA_ERROR_ILLEGAL_ADDRESS, std::string(name) + " has " + std::to_string(each) +
                                                  ", which is not from 0 to " + std::to_string(most));
    }
    return own;
}

// How many labels and steps each sequence has.
struct Batch {
    std::vector<int32_t> label_lengths, lengths;
};
// The labels themselves are of memory that their lengths say.
Batch batch_of(const ctc& m, const Work& work) {
    const int64_t sequences = m.probsDesc.dims[1];
    Batch batch;
    batch.lengths = copied("inputLengths", m.inputLengths, sequences, m.probsDesc.dims[0], work);
    batch.label_lengths =
        copied("labelLengths", m.labelLengths, sequences, m.ctcLossDesc.max_label_length, work);
    uint64_t bytes = 0;
    for (const int32_t each : batch.label_lengths) bytes = sum(bytes, product(length(each), sizeof(int32_t)));
    if (bytes > 0 && (m.labels % sizeof(int32_t) != 0 || !work.reach(m.labels, bytes, false))) {
        work.fail(CUDA_ERROR_ILLEGAL_ADDRESS,
                  "labels has " + std::to_string(bytes) + " bytes, which are not all memory of the device");
    }
    return batch;
}

// One sequence: its labels with blanks between them and around, and its probabilities' logarithms, by steps.
struct Sequence {
    int64_t steps, classes;
    std::vector<int32_t> places;
    Numbers logs;

    int64_t count() const { return static_cast<int64_t>(places.size()); }
    int32_t label(int64_t place) const { return places[static_cast<size_t>(place)]; }
    double log_of(int64_t step, int64_t place) const {
        return logs[static_cast<size_t>(step * classes + label(place))];
    }
    // A blank between two different labels may be left out.
    bool skips_to(int64_t place) const {
        return place >= 2 && label(place) != kBlank && label(place) != label(place - 2);
    }
};

void take_logarithms(double* row, int64_t count, int32_t normalization, const Work& work) {
    if (normalization == kProbabilities) {
        for_numbers(count, work, [&](int64_t k) { row[k] = std::log(row[k]); });
        return;
    }
    const double most = *std::max_element(row, row + count);
    double sum = 0;
    for_numbers(count, work, [&](int64_t k) { sum += std::exp(row[k] - most); });
    const double whole = most + std::log(sum);
    for_numbers(count, work, [&](int64_t k) { row[k] -= whole; });
}

Sequence sequence_of(const ctc& m, int64_t n, int64_t steps, const std::vector<int32_t>& labels,
                     const Work& work) {
    Sequence s{steps, m.probsDesc.dims[2], {kBlank}, {}};
    s.places.reserve(2 * labels.size() + 1);
    for (const int32_t each : labels) s.places.push_back(each), s.places.push_back(kBlank);
    s.logs.resize(static_cast<size_t>(steps * s.classes));
    for (int64_t t = 0; t < steps && !work.stopped(); ++t) {
        double* const row = s.logs.data() + t * s.classes;
        load(m.probsDesc, m.probs, m.probsDesc, Piece{t, n * s.classes, s.classes}, row);
        take_logarithms(row, s.classes, m.ctcLossDesc.normalization, work);
    }
    return s;
}

// Logarithms by step and place: of the ways that come there, with the step's own probability.
Numbers ways_to(const Sequence& s, const Work& work) {
    const int64_t count = s.count();
    Numbers ways(static_cast<size_t>(s.steps * count), kNever);
    for (int64_t t = 0; t < s.steps && !work.stopped(); ++t) {
        double* const now = ways.data() + t * count;
        const double* const before = now - count;
        for (int64_t p = 0; p < count; ++p) {
            double all = t > 0 ? before[p] : p < 2 ? 0 : kNever;
            if (t > 0 && p >= 1) all = log_sum(all, before[p - 1]);
            if (t > 0 && s.skips_to(p)) all = log_sum(all, before[p - 2]);
            now[p] = all + s.log_of(t, p);
        }
    }
    return ways;
}
// Of the ways that go on from there, without it.
Numbers ways_from(const Sequence& s, const Work& work) {
    const int64_t count = s.count();
    Numbers ways(static_cast<size_t>(s.steps * count), kNever);
    if (s.steps > 0) std::fill(ways.end() - std::min<int64_t>(count, 2), ways.end(), 0.0);
    for (int64_t t = s.steps - 2; t >= 0 && !work.stopped(); --t) {
        double* const now = ways.data() + t * count;
        const auto by = [&](int64_t p) { return now[count + p] + s.log_of(t + 1, p); };
        for (int64_t p = 0; p < count; ++p) {
            now[p] = by(p);
            if (p + 1 < count) now[p] = log_sum(now[p], by(p + 1));
            if (p + 2 < count && s.skips_to(p + 2)) now[p] = log_sum(now[p], by(p + 2));
        }
    }
    return ways;
}

double log_probability(const Sequence& s, const Numbers& to) {
    if (s.steps == 0) return s.count() == 1 ? 0 : kNever;
    const double* const end = to.data() + to.size();
    return s.count() == 1 ? end[-1] : log_sum(end[-1], end[-2]);
}

// Of the activations, at a step: each class' probability without the part of the ways that give it then.
void slopes_at(const Sequence& s, int64_t t, const Numbers& to, const Numbers& from, double log_all,
               Numbers& row, const Work& work) {
    const double* const logs = s.logs.data() + t * s.classes;
    for_numbers(s.classes, work, [&](int64_t k) { row[static_cast<size_t>(k)] = std::exp(logs[k]); });
    for (int64_t p = 0; p < s.count(); ++p) {
        const auto way = static_cast<size_t>(t * s.count() + p);
        row[static_cast<size_t>(s.label(p))] -= std::exp(to[way] + from[way] - log_all);
    }
}

// `s` may be null, for a sequence that is impossible.
void store_slopes(const ctc& m, int64_t n, const Sequence* s, const Numbers& to, double log_all,
                  const Work& work) {
    if (!s && m.ctcLossDesc.gradient_mode == kLeft) return;
    const Numbers from = s ? ways_from(*s, work) : Numbers();
    const int64_t classes = m.gradientsDesc.dims[2];
    Numbers row(static_cast<size_t>(classes));
    for (int64_t t = 0; t < m.gradientsDesc.dims[0] && !work.stopped(); ++t) {
        if (s && t < s->steps) {
            slopes_at(*s, t, to, from, log_all, row, work);
        } else {
            std::fill(row.begin(), row.end(), 0.0);
        }
        store(m.gradientsDesc, m.gradients, Piece{t, n * classes, classes}, row.data(), {});
    }
}

// A sequence with more labels than steps is impossible, whatever they are.
void classify(const ctc& m, int64_t n, int64_t steps, uint64_t labels, int64_t count, const Work& work) {
    Numbers to;
    double log_all = kNever;
    Sequence s{};
    if (count <= steps) {
        s = sequence_of(m, n, steps, copied("labels", labels, count, m.probsDesc.dims[2] - 1, work), work);
        to = ways_to(s, work);
        log_all = log_probability(s, to);
    }
    if (work.stopped()) return;
    at<float>(m.costs)[n] = static_cast<float>(-log_all);
    if (m.gradients) store_slopes(m, n, log_all == kNever ? nullptr : &s, to, log_all, work);
}

// Of a sequence, at most: its probabilities, the ways to and from each place, its labels and places, a row of
// slopes. Of all: lengths.
uint64_t most_bytes(const ctc& m) {
    const uint64_t steps = length(m.probsDesc.dims[0]), classes = length(m.probsDesc.dims[2]);
    const uint64_t labels = std::min(steps, length(m.ctcLossDesc.max_label_length)),
                   places = sum(product(2, labels), 1);
    const uint64_t numbers = sum(product(steps, sum(classes, product(2, places))), classes);
    const uint64_t lists = sum(product(2, length(m.probsDesc.dims[1])), product(3, places));
    return sum(product(numbers, sizeof(double)), product(lists, sizeof(int32_t)));
}

}  // namespace

CUresult run(ctc& m, Type, Work& work) {
    work.reserve(most_bytes(m));
    const Batch batch = batch_of(m, work);
    uint64_t labels = m.labels;
    for (size_t n = 0; n < batch.lengths.size() && !work.stopped(); ++n) {
        classify(m, static_cast<int64_t>(n), batch.lengths[n], labels, batch.label_lengths[n], work);
        labels += length(batch.label_lengths[n]) * sizeof(int32_t);
    }
    return CUDA_SUCCESS;
}

}  // namespace maths::cudnn
