// Recurrent layers. Sequences are put in order of their length, so that at each step those that are still
// there are the first rows of a matrix, and a step of a layer is one product of matrices with the states'
// weights; the products with the inputs' weights are one for all steps.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "blas.h"
#include "dnn/dnn_cpu.h"
#include "dnn/dropout.h"
#include "dnn/tensors.h"

namespace maths::cudnn {
namespace {

using Count = int64_t;

struct Steps {
    std::vector<Count> order;    // the sequences, the longest first
    std::vector<Count> lengths;  // in that order
    std::vector<Count> there;    // how many there are at each step
    std::vector<Count> first;    // row of each step
    Count rows = 0;

    Count batch() const { return static_cast<Count>(order.size()); }
    Count count() const { return static_cast<Count>(there.size()); }
};

// What lies on the device is copied before it is looked at.
std::vector<int32_t> lengths_of(const RnnData& data, uint64_t on_device, const Work& work) {
    std::vector<int32_t> lengths(static_cast<size_t>(data.batch));
    for (size_t i = 0; i < lengths.size(); ++i)
        lengths[i] = static_cast<int32_t>(length_of(data, static_cast<Count>(i)));
    if (!on_device) return lengths;
    std::vector<int32_t> given(lengths.size());
    std::memcpy(given.data(), at<const void>(on_device), given.size() * sizeof given[0]);
    for (size_t i = 0; i < given.size(); ++i) {
        const bool fits =
            data.layout == kPacked ? given[i] == lengths[i] : given[i] >= 0 && given[i] <= lengths[i];
        if (!fits) {
            work.fail(CUDA_ERROR_ILLEGAL_ADDRESS,
                      "devSeqLengths has " + std::to_string(given[i]) + " for sequence " + std::to_string(i) +
                          ", which the descriptor says has " + std::to_string(lengths[i]));
        }
    }
    return given;
}

Steps steps_for(const RnnData& data, uint64_t on_device, const Work& work) {
    const std::vector<int32_t> lengths = lengths_of(data, on_device, work);
    Steps steps;
    steps.order.resize(lengths.size());
    std::iota(steps.order.begin(), steps.order.end(), Count{0});
    const auto length = [&](Count i) { return lengths[static_cast<size_t>(i)]; };
    std::stable_sort(steps.order.begin(), steps.order.end(),
                     [&](Count a, Count b) { return length(a) > length(b); });
    for (const Count i : steps.order) steps.lengths.push_back(length(i));
    Count there = steps.batch();
    Watch watch(work);
    for (Count step = 0; step < steps.lengths[0]; ++step) {
        if (watch.stops(1)) throw Stopped{};
        while (steps.lengths[static_cast<size_t>(there - 1)] <= step) --there;
        steps.there.push_back(there);
        steps.first.push_back(steps.rows);
        steps.rows += there;
    }
    return steps;
}

// Calls `body` with each row of the matrix and the number of its first element in the tensor.
template <typename Body>
void for_places(const Steps& steps, const RnnData& data, const Work& work, Body body) {
    Watch watch(work);
    Count row = 0;
    for (Count step = 0; step < steps.count(); ++step) {
        for (Count i = 0; i < steps.there[static_cast<size_t>(step)]; ++i, ++row) {
            if (watch.stops(data.vector_size)) return;
            const Count sequence = steps.order[static_cast<size_t>(i)];
            const Count place = data.layout == kPacked       ? row
                                : data.layout == kBatchFirst ? sequence * data.max_length + step
                                                             : step * data.batch + sequence;
            body(row, place * data.vector_size);
        }
    }
}

Tensor list_of(int32_t type, Count count) {
    return {type, 2, {1, count}, {count, 1}};
}
template <typename Described>
uint64_t behind(const Described& described, uint64_t data, Count elements) {
    return data + static_cast<uint64_t>(elements) * bytes_of(type_of(described));
}

template <typename A>
std::vector<A> load_rows(const Steps& steps, const RnnData& data, uint64_t from, const Work& work) {
    std::vector<A> rows(static_cast<size_t>(steps.rows * data.vector_size));
    const Tensor list = list_of(data.type, data.vector_size);
    for_places(steps, data, work, [&](Count row, Count place) {
        load(list, behind(data, from, place), list, 0, rows.data() + row * data.vector_size);
    });
    return rows;
}

template <typename A>
void store_rows(const Steps& steps, const RnnData& data, uint64_t to, const A* rows, const Work& work) {
    Watch watch(work);
    const Tensor list = list_of(data.type, data.vector_size);
    for_places(steps, data, work, [&](Count row, Count place) {
        store(list, behind(data, to, place), 0, rows + row * data.vector_size, {});
    });
    if (!data.fills || data.layout == kPacked) return;
    Tensor one = list_of(data.type, 1);
    A fill;
    load(one, reinterpret_cast<uint64_t>(data.fill), one, 0, &fill);
    const std::vector<A> fills(static_cast<size_t>(data.vector_size), fill);
    for (Count i = 0; i < steps.batch(); ++i) {
        const Count sequence = steps.order[static_cast<size_t>(i)];
        for (Count step = steps.lengths[static_cast<size_t>(i)]; step < data.max_length; ++step) {
            if (watch.stops(data.vector_size)) return;
            const Count place =
                data.layout == kBatchFirst ? sequence * data.max_length + step : step * data.batch + sequence;
            store(list, behind(data, to, place * data.vector_size), 0, fills.data(), {});
        }
    }
}

// rows x columns of a sum: c = a * b + beta * c, some rows at a time, between which it can be interrupted.
template <typename A>
struct Matrix {
    const A* data;
    Count lead;
    bool transposed = false;
};
template <typename A>
void multiply(const Work& work, Count rows, Count columns, Count inner, Matrix<A> a, Matrix<A> b, A beta,
              A* c, Count lead) {
    constexpr Count kMostProducts = Count{1} << 31;
    const Count most =
        std::clamp<Count>(kMostProducts / std::max<Count>(1, columns * inner), 1, std::max<Count>(1, rows));
    for (Count first = 0; first < rows && !work.stopped(); first += most) {
        Blas<A>::gemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                      b.transposed ? CblasTrans : CblasNoTrans, std::min(most, rows - first), columns, inner,
                      A(1), a.data + first * (a.transposed ? 1 : a.lead), a.lead, b.data, b.lead, beta,
                      c + first * lead, lead);
    }
}

// What a forward pass leaves for the backward one (tape_of).
class Tape {
  public:
    Tape(const Rnn& rnn, bool keeps, Count rows)
        : keeps_(keeps),
          rows_(rows),
          pseudo_layers_(static_cast<Count>(pseudo_layers_of(rnn))),
          layers_(rnn.layers),
          gates_(static_cast<Count>(gates_of(rnn))),
          beside_(static_cast<Count>(beside_of(rnn))),
          slopes_(static_cast<Count>(slopes_of(rnn))),
          width_(static_cast<Count>(width_of(rnn))),
          numbers_(tape_of(rnn, keeps, length(rows))) {}

    uint64_t numbers() const { return numbers_; }

    // Numbers of a row.
    Count gates_width() const { return gates_; }
    Count slopes_width() const { return slopes_; }
    Count width() const { return width_; }

    // Places among the numbers.
    Count gates(Count pseudo) const { return (keeps_ ? pseudo : 0) * rows_ * gates_; }
    Count beside(Count pseudo) const {
        return kept() * rows_ * gates_ + (keeps_ ? pseudo : 0) * rows_ * beside_;
    }
    Count output(Count layer) const {
        return kept() * rows_ * (gates_ + beside_) + (keeps_ ? layer : layer % 2) * rows_ * width_;
    }
    Count mask(Count layer) const { return output(0) + (layers_ + layer) * rows_ * width_; }
    Count slopes(Count pseudo) const { return mask(layers_) + pseudo * rows_ * slopes_; }

  private:
    Count kept() const { return keeps_ ? pseudo_layers_ : 1; }

    const bool keeps_;
    const Count rows_, pseudo_layers_, layers_, gates_, beside_, slopes_, width_;
    const uint64_t numbers_;
};

template <typename A>
A sigmoid(A x) {
    return 1 / (1 + std::exp(-x));
}

// One sequence's step of one pseudo-layer: its numbers, with `hidden` of them for each gate.
template <typename A>
struct Cells {
    int32_t kind;
    Count hidden;
    const A *input_bias, *state_bias;  // of all gates

    // From the sums for the input, which become the gates, and those for the state.
    void forward(A* gates, const A* state_sums, A* beside, const A* memory_before, const A* before,
                 A* output) const {
        const auto sum = [&](Count i) { return gates[i] + input_bias[i] + state_sums[i] + state_bias[i]; };
        for (Count i = 0; i < hidden; ++i) {
            const Count second = hidden + i, third = 2 * hidden + i, fourth = 3 * hidden + i;
            if (kind == kLstm) {
                gates[i] = sigmoid(sum(i)), gates[second] = sigmoid(sum(second));
                gates[third] = std::tanh(sum(third)), gates[fourth] = sigmoid(sum(fourth));
                beside[i] = gates[second] * memory_before[i] + gates[i] * gates[third];
                output[i] = gates[fourth] * std::tanh(beside[i]);
            } else if (kind == kGru) {
                gates[i] = sigmoid(sum(i)), gates[second] = sigmoid(sum(second));
                beside[i] = state_sums[third] + state_bias[third];
                gates[third] = std::tanh(gates[third] + input_bias[third] + gates[i] * beside[i]);
                output[i] = (1 - gates[second]) * gates[third] + gates[second] * before[i];
            } else {
                output[i] = kind == kTanhCell ? std::tanh(sum(i)) : std::max(sum(i), A(0));
            }
        }
    }

    // The gates' slopes from that of the output; a GRU's fourth is that of what the state gives to its
    // candidate. `memory`: the slope of an LSTM's memory, which becomes that of the one before. `direct`:
    // what comes to the state before without a matrix.
    void back(const A* gates, const A* beside, const A* memory_before, const A* before, const A* output,
              const A* d_output, A* memory, A* slopes, A* direct) const {
        for (Count i = 0; i < hidden; ++i) {
            const Count second = hidden + i, third = 2 * hidden + i, fourth = 3 * hidden + i;
            const A d = d_output[i];
            direct[i] = 0;
            if (kind == kLstm) {
                const A tanh = std::tanh(beside[i]), in = gates[i], keep = gates[second], made = gates[third];
                const A out = gates[fourth], d_memory = memory[i] + d * out * (1 - tanh * tanh);
                slopes[i] = d_memory * made * in * (1 - in);
                slopes[second] = d_memory * memory_before[i] * keep * (1 - keep);
                slopes[third] = d_memory * in * (1 - made * made);
                slopes[fourth] = d * tanh * out * (1 - out);
                memory[i] = d_memory * keep;
            } else if (kind == kGru) {
                const A reset = gates[i], update = gates[second], made = gates[third];
                const A d_made = d * (1 - update) * (1 - made * made);
                slopes[i] = d_made * beside[i] * reset * (1 - reset);
                slopes[second] = d * (before[i] - made) * update * (1 - update);
                slopes[third] = d_made;
                slopes[fourth] = d_made * reset;
                direct[i] = d * update;
            } else {
                slopes[i] = kind == kTanhCell ? d * (1 - output[i] * output[i]) : output[i] > 0 ? d : 0;
            }
        }
    }
};

// One call: its weights, its tape and its sequences.
template <typename A>
class Layers {
  public:
    Layers(const Rnn& rnn, const Steps& steps, const Tape& tape, A* numbers, const Work& work)
        : rnn_(rnn),
          steps_(steps),
          tape_(tape),
          numbers_(numbers),
          work_(work),
          hidden_(rnn.hidden_size),
          gates_(tape.gates_width()),
          directions_(static_cast<Count>(directions_of(rnn))) {}

    void load_weights(uint64_t data) {
        const Tensor list = list_of(rnn_.type, static_cast<Count>(weights_of(rnn_)));
        weights_.resize(weights_of(rnn_));
        for_pieces(list, work_,
                   [&](Piece piece) { load(list, data, list, piece, weights_.data() + piece.first); });
    }

    // The numbers of a pseudo-layer's states, in the order of the sequences here.
    std::vector<A> state(const Tensor& states, uint64_t data, Count pseudo) const {
        std::vector<A> sorted(static_cast<size_t>(steps_.batch() * hidden_));
        if (!data) return sorted;
        const std::vector<A> all = image<A>(states, data, pseudo);
        for (Count i = 0; i < steps_.batch(); ++i) {
            std::copy_n(all.data() + steps_.order[static_cast<size_t>(i)] * hidden_, hidden_,
                        sorted.data() + i * hidden_);
        }
        return sorted;
    }
    void store_state(const Tensor& states, uint64_t data, Count pseudo, const std::vector<A>& sorted) const {
        if (!data || work_.stopped()) return;
        std::vector<A> all(sorted.size());
        for (Count i = 0; i < steps_.batch(); ++i) {
            std::copy_n(sorted.data() + i * hidden_, hidden_,
                        all.data() + steps_.order[static_cast<size_t>(i)] * hidden_);
        }
        store(states, data, pseudo, all.data(), {});
    }

    A* output(Count layer) const { return numbers_ + tape_.output(layer); }
    A* mask(Count layer) const { return numbers_ + tape_.mask(layer); }

    // What goes on to the next layer: with dropout, by its mask.
    std::vector<A> given_on(Count layer, bool masked) const {
        const Count count = steps_.rows * tape_.width();
        std::vector<A> given(output(layer), output(layer) + count);
        const A* const by = mask(layer);
        if (masked) for_numbers(count, work_, [&](Count i) { given[static_cast<size_t>(i)] *= by[i]; });
        return given;
    }

    // `h` and `c` are the states before, and become those after.
    void forward(Count pseudo, const A* input, std::vector<A>& h, std::vector<A>& c) {
        const Count width = input_width(pseudo), out = tape_.width(), first_column = column(pseudo);
        A* const gates = numbers_ + tape_.gates(pseudo);
        A* const beside = numbers_ + tape_.beside(pseudo);
        A* const result = output(pseudo / directions_) + first_column;
        multiply<A>(work_, steps_.rows, gates_, width, {input, width}, {input_weights(pseudo), width, true},
                    0, gates, gates_);
        const std::vector<A> biases = bias_lists(pseudo);
        const Cells<A> cells{rnn_.cell, hidden_, biases.data(), biases.data() + gates_};
        std::vector<A> sums(static_cast<size_t>(steps_.batch() * gates_));
        Watch watch(work_);
        for_steps(pseudo, false, [&](Count step, Count there, Count row) {
            multiply<A>(work_, there, gates_, hidden_, {h.data(), hidden_},
                        {state_weights(pseudo), hidden_, true}, 0, sums.data(), gates_);
            for (Count i = 0; i < there && !watch.stops(gates_); ++i) {
                const Count at = row + i;
                A *const own = h.data() + i * hidden_, *const memory = c.data() + i * hidden_;
                cells.forward(gates + at * gates_, sums.data() + i * gates_, beside + at * hidden_, memory,
                              own, result + at * out);
                std::copy_n(result + at * out, hidden_, own);
                if (rnn_.cell == kLstm) std::copy_n(beside + at * hidden_, hidden_, memory);
            }
        });
    }

    // `h` and `c` are the states before the first step; `d_h` and `d_c` the slopes of those after the last,
    // and become theirs. `d_output`: of what the layer gave on.
    void back(Count pseudo, const A* d_output, const std::vector<A>& h, const std::vector<A>& c,
              std::vector<A>& d_h, std::vector<A>& d_c) {
        const Count out = tape_.width(), first_column = column(pseudo), wide = tape_.slopes_width();
        const A* const gates = numbers_ + tape_.gates(pseudo);
        const A* const beside = numbers_ + tape_.beside(pseudo);
        const A* const result = output(pseudo / directions_) + first_column;
        A* const slopes = numbers_ + tape_.slopes(pseudo);
        const Cells<A> cells{rnn_.cell, hidden_, nullptr, nullptr};
        std::vector<A> total(static_cast<size_t>(hidden_));
        Watch watch(work_);
        for_steps(pseudo, true, [&](Count step, Count there, Count row) {
            for (Count i = 0; i < there && !watch.stops(gates_); ++i) {
                const Count at = row + i, earlier = row_before(pseudo, step, i);
                const A* const before = earlier < 0 ? h.data() + i * hidden_ : result + earlier * out;
                const A* const memory = earlier < 0 ? c.data() + i * hidden_ : beside + earlier * hidden_;
                A* const own = d_h.data() + i * hidden_;
                for (Count k = 0; k < hidden_; ++k)
                    total[static_cast<size_t>(k)] = own[k] + d_output[at * out + first_column + k];
                cells.back(gates + at * gates_, beside + at * hidden_, memory, before, result + at * out,
                           total.data(), d_c.data() + i * hidden_, slopes + at * wide, own);
            }
            for_state_slopes(slopes + row * wide, state_weights(pseudo),
                             [&](const A* d, Count count, const A* weights) {
                                 multiply<A>(work_, there, hidden_, count, {d, wide}, {weights, hidden_}, 1,
                                             d_h.data(), hidden_);
                             });
        });
    }

    // Of the pseudo-layer's input, added to what is there.
    void back_to_input(Count pseudo, A* d_input) const {
        const Count width = input_width(pseudo);
        multiply<A>(work_, steps_.rows, width, gates_,
                    {numbers_ + tape_.slopes(pseudo), tape_.slopes_width()}, {input_weights(pseudo), width},
                    1, d_input, width);
    }

    // Added to `d_weights`, which lie as the weights do.
    void back_to_weights(Count pseudo, const A* input, const std::vector<A>& h, A* d_weights) const {
        const Count width = input_width(pseudo), wide = tape_.slopes_width();
        const A* const slopes = numbers_ + tape_.slopes(pseudo);
        A* const of_input = d_weights + matrices_before(rnn_, static_cast<uint64_t>(pseudo));
        multiply<A>(work_, gates_, width, steps_.rows, {slopes, wide, true}, {input, width}, 1, of_input,
                    width);
        const std::vector<A> before = states_before(pseudo, h);
        for_state_slopes(slopes, of_input + gates_ * width, [&](const A* d, Count count, A* to) {
            multiply<A>(work_, count, hidden_, steps_.rows, {d, wide, true}, {before.data(), hidden_}, 1, to,
                        hidden_);
        });
        A* bias = d_weights + biases_before(rnn_, static_cast<uint64_t>(pseudo));
        const auto add_up = [&](const A* d, Count count, A* to) {
            Watch watch(work_);
            for (Count row = 0; row < steps_.rows && !watch.stops(count); ++row) {
                for (Count i = 0; i < count; ++i) to[i] += d[row * wide + i];
            }
        };
        if (rnn_.bias == kInputBias || rnn_.bias == kBothBiases) add_up(slopes, gates_, bias), bias += gates_;
        if (rnn_.bias == kRecurrentBias || rnn_.bias == kBothBiases) {
            for_state_slopes(slopes, bias, [&](const A* d, Count count, A* to) { add_up(d, count, to); }, 1);
        }
    }

  private:
    Count input_width(Count pseudo) const {
        return static_cast<Count>(input_of(rnn_, static_cast<uint64_t>(pseudo)));
    }
    Count column(Count pseudo) const { return pseudo % directions_ * hidden_; }
    const A* input_weights(Count pseudo) const {
        return weights_.data() + matrices_before(rnn_, static_cast<uint64_t>(pseudo));
    }
    const A* state_weights(Count pseudo) const {
        return input_weights(pseudo) + gates_ * input_width(pseudo);
    }

    // Of the input's gates and of the state's, zeros where there are none.
    std::vector<A> bias_lists(Count pseudo) const {
        std::vector<A> lists(static_cast<size_t>(2 * gates_));
        const A* from = weights_.data() + biases_before(rnn_, static_cast<uint64_t>(pseudo));
        const auto list = static_cast<Count>(bias_lists_of(rnn_));
        std::copy_n(from, list * gates_, lists.data() + (rnn_.bias == kRecurrentBias ? gates_ : 0));
        return lists;
    }

    // Calls `body` with the slopes of gates that the state has a part in and the place of their weights,
    // whose rows are `columns` long: a GRU's third gate is reached by the fourth slope.
    template <typename To, typename Body>
    void for_state_slopes(const A* slopes, To* weights, Body body, Count columns) const {
        if (rnn_.cell != kGru) return body(slopes, gates_, weights);
        body(slopes, 2 * hidden_, weights);
        body(slopes + 3 * hidden_, hidden_, weights + 2 * hidden_ * columns);
    }
    template <typename To, typename Body>
    void for_state_slopes(const A* slopes, To* weights, Body body) const {
        for_state_slopes(slopes, weights, body, hidden_);
    }

    // The second direction goes from each sequence's end to its begin.
    template <typename Body>
    void for_steps(Count pseudo, bool backwards, Body body) const {
        const bool from_end = (pseudo % directions_ == 1) != backwards;
        for (Count k = 0; k < steps_.count() && !work_.stopped(); ++k) {
            const Count step = from_end ? steps_.count() - 1 - k : k;
            body(step, steps_.there[static_cast<size_t>(step)], steps_.first[static_cast<size_t>(step)]);
        }
    }
    // Of the i-th sequence's step before this one, as its direction goes; -1 for the first.
    Count row_before(Count pseudo, Count step, Count i) const {
        const Count earlier = pseudo % directions_ == 1 ? step + 1 : step - 1;
        const bool is_there =
            earlier >= 0 && earlier < steps_.count() && i < steps_.there[static_cast<size_t>(earlier)];
        return is_there ? steps_.first[static_cast<size_t>(earlier)] + i : -1;
    }
    std::vector<A> states_before(Count pseudo, const std::vector<A>& h) const {
        std::vector<A> before(static_cast<size_t>(steps_.rows * hidden_));
        const A* const result = output(pseudo / directions_) + column(pseudo);
        Watch watch(work_);
        for_steps(pseudo, false, [&](Count step, Count there, Count row) {
            for (Count i = 0; i < there && !watch.stops(hidden_); ++i) {
                const Count earlier = row_before(pseudo, step, i);
                std::copy_n(earlier < 0 ? h.data() + i * hidden_ : result + earlier * tape_.width(), hidden_,
                            before.data() + (row + i) * hidden_);
            }
        });
        return before;
    }

    const Rnn& rnn_;
    const Steps& steps_;
    const Tape& tape_;
    A* const numbers_;
    const Work& work_;
    const Count hidden_, gates_, directions_;
    std::vector<A> weights_;
};

bool drops(const Rnn& rnn) {
    return rnn.dropout.rate > 0 && rnn.layers > 1;
}

// What a call has at once: weights or their slopes, what it leaves where nothing keeps it, rows of input and
// output, states and sums of a step, and the order of the sequences.
template <typename A>
void reserve_for(const Rnn& rnn, const RnnData& x, uint64_t tape, Work& work) {
    const uint64_t rows = steps_of(x), batch = length(x.batch), hidden = length(rnn.hidden_size);
    const uint64_t widest = std::max(width_of(rnn), length(rnn.input_size));
    const uint64_t of_rows = product(rows, sum(product(4, widest), hidden));
    const uint64_t of_step = product(sum(batch, 2), sum(gates_of(rnn), product(8, hidden)));
    const uint64_t numbers = sum(sum(weights_of(rnn), tape), sum(of_rows, of_step));
    const uint64_t steps = product(8, sum(batch, length(x.max_length)));
    work.reserve(sum(product(numbers, sizeof(A)),
                     product(std::min(steps, product(8, sum(batch, rows))), sizeof(Count))));
}

template <typename A>
void draw_masks(const Rnn& rnn, const Steps& steps, const Tape& tape, Layers<A>& layers, const Work& work) {
    const Count count = steps.rows * tape.width();
    Draws draws(rnn.dropout, length(count) * length(rnn.layers - 1));
    const A scale = static_cast<A>(draws.scale());
    for (Count layer = 0; layer + 1 < rnn.layers && !work.stopped(); ++layer) {
        A* const mask = layers.mask(layer);
        for_numbers(count, work, [&](Count i) { mask[i] = draws.keeps() ? scale : 0; });
    }
}

template <typename A>
void forward(recur& m, Work& work) {
    const Rnn& rnn = m.rnnDesc;
    const bool keeps = m.fwdMode == 1;
    reserve_for<A>(rnn, m.xDesc, keeps ? 0 : tape_of(rnn, false, steps_of(m.xDesc)), work);
    const Steps steps = steps_for(m.xDesc, m.devSeqLengths, work);
    const Tape tape(rnn, keeps, steps.rows);
    std::vector<A> own(keeps ? 0 : tape.numbers());
    A* const numbers = keeps ? at<A>(m.reserveSpace) : own.data();
    Layers<A> layers(rnn, steps, tape, numbers, work);
    layers.load_weights(m.weightSpace);
    const bool masked = keeps && drops(rnn);
    if (masked) draw_masks(rnn, steps, tape, layers, work);
    std::vector<A> input = load_rows<A>(steps, m.xDesc, m.x, work);
    const auto directions = static_cast<Count>(directions_of(rnn));
    for (Count layer = 0; layer < rnn.layers && !work.stopped(); ++layer) {
        for (Count pseudo = layer * directions; pseudo < (layer + 1) * directions; ++pseudo) {
            std::vector<A> h = layers.state(m.hDesc, m.hx, pseudo), c = layers.state(m.cDesc, m.cx, pseudo);
            layers.forward(pseudo, input.data(), h, c);
            layers.store_state(m.hDesc, m.hy, pseudo, h);
            layers.store_state(m.cDesc, m.cy, pseudo, c);
        }
        if (layer + 1 < rnn.layers) input = layers.given_on(layer, masked);
    }
    if (!work.stopped()) store_rows(steps, m.yDesc, m.y, layers.output(rnn.layers - 1), work);
}

template <typename A>
void back_to_data(recur_back_data& m, Work& work) {
    const Rnn& rnn = m.rnnDesc;
    reserve_for<A>(rnn, m.xDesc, 0, work);
    const Steps steps = steps_for(m.xDesc, m.devSeqLengths, work);
    const Tape tape(rnn, true, steps.rows);
    Layers<A> layers(rnn, steps, tape, at<A>(m.reserveSpace), work);
    layers.load_weights(m.weightSpace);
    std::vector<A> d_output = load_rows<A>(steps, m.yDesc, m.dy, work);
    const auto directions = static_cast<Count>(directions_of(rnn));
    for (Count layer = rnn.layers - 1; layer >= 0 && !work.stopped(); --layer) {
        std::vector<A> d_input(static_cast<size_t>(steps.rows * (layer ? tape.width() : rnn.input_size)));
        for (Count pseudo = layer * directions; pseudo < (layer + 1) * directions; ++pseudo) {
            const std::vector<A> h = layers.state(m.hDesc, m.hx, pseudo),
                                 c = layers.state(m.cDesc, m.cx, pseudo);
            std::vector<A> d_h = layers.state(m.hDesc, m.dhy, pseudo),
                           d_c = layers.state(m.cDesc, m.dcy, pseudo);
            layers.back(pseudo, d_output.data(), h, c, d_h, d_c);
            layers.store_state(m.hDesc, m.dhx, pseudo, d_h);
            layers.store_state(m.cDesc, m.dcx, pseudo, d_c);
            layers.back_to_input(pseudo, d_input.data());
        }
        if (layer > 0 && drops(rnn)) {
            const A* const mask = layers.mask(layer - 1);
            for_numbers(static_cast<Count>(d_input.size()), work,
                        [&](Count i) { d_input[static_cast<size_t>(i)] *= mask[i]; });
        }
        d_output = std::move(d_input);
    }
    if (!work.stopped()) store_rows(steps, m.xDesc, m.dx, d_output.data(), work);
}

template <typename A>
void back_to_weights(recur_back_weights& m, Work& work) {
    constexpr int64_t kAdds = 0;
    const Rnn& rnn = m.rnnDesc;
    reserve_for<A>(rnn, m.xDesc, 0, work);
    const Steps steps = steps_for(m.xDesc, m.devSeqLengths, work);
    const Tape tape(rnn, true, steps.rows);
    Layers<A> layers(rnn, steps, tape, at<A>(m.reserveSpace), work);
    const Tensor list = list_of(rnn.type, static_cast<Count>(weights_of(rnn)));
    std::vector<A> d_weights(weights_of(rnn));
    std::vector<A> input = load_rows<A>(steps, m.xDesc, m.x, work);
    const auto directions = static_cast<Count>(directions_of(rnn));
    for (Count layer = 0; layer < rnn.layers && !work.stopped(); ++layer) {
        if (layer > 0) input = layers.given_on(layer - 1, drops(rnn));
        for (Count pseudo = layer * directions; pseudo < (layer + 1) * directions; ++pseudo) {
            layers.back_to_weights(pseudo, input.data(), layers.state(m.hDesc, m.hx, pseudo),
                                   d_weights.data());
        }
    }
    const Blend blend{1, m.addGrad == kAdds ? 1.0 : 0.0};
    for_pieces(list, work, [&](Piece piece) {
        store(list, m.dweightSpace, piece, d_weights.data() + piece.first, blend);
    });
}

}  // namespace

CUresult run(recur_room& m, Type, Work&) {
    const uint64_t bytes = m.fwdMode == 1 ? reserve_bytes_of(m.rnnDesc, m.xDesc) : 0;
    const uint64_t answer[] = {0, bytes};  // this end brings what it works in
    std::memcpy(at<void>(m.answer), answer, sizeof answer);
    return CUDA_SUCCESS;
}

CUresult run(recur& m, Type, Work& work) {
    return in_precision([&]<typename A>(A) { forward<A>(m, work); }, m.rnnDesc);
}

CUresult run(recur_back_data& m, Type, Work& work) {
    return in_precision([&]<typename A>(A) { back_to_data<A>(m, work); }, m.rnnDesc);
}

CUresult run(recur_back_weights& m, Type, Work& work) {
    return in_precision([&]<typename A>(A) { back_to_weights<A>(m, work); }, m.rnnDesc);
}

}  // namespace maths::cudnn
