// What the descriptors of dropout and of recurrent layers say: which memory their data and weights take. The
// numbers may be anything: nothing here overflows.
#pragma once

#include "cudnn/rules.h"

namespace maths::cudnn {

constexpr bool is_dropout(const Dropout& dropout) {
    return dropout.rate >= 0 && dropout.rate <= 1;
}
constexpr bool can_draw(const Dropout& dropout) {
    return dropout.rate == 0 || dropout.states != 0;
}
constexpr Extent all_states_of(const Dropout& dropout) {
    return exactly(static_cast<int64_t>(std::min<uint64_t>(dropout.state_bytes, INT64_MAX)));
}
// Those that random numbers are drawn from. Frameworks give a size without states where nothing is dropped.
constexpr Extent states_of(const Dropout& dropout) {
    return dropout.rate == 0 || dropout.states == 0 ? exactly(0) : all_states_of(dropout);
}
// A software GPU's states: a seed, and how many numbers were drawn.
inline constexpr uint64_t kStateBytes = 16;
inline void limit_states(Look& look, const Dropout& dropout) {
    if (dropout.state_bytes < kStateBytes && look.end().threads != 0)
        look.refuse(Fit::invalid, "the states have less memory than cudnnDropoutGetStatesSize says");
}
inline void limit_states_drawn(Look& look, const Dropout& dropout) {
    if (dropout.rate != 0) limit_states(look, dropout);
}
// A byte for each number, which says whether it was kept.
constexpr bool has_room_for_mask(int64_t bytes, const Tensor& tensor) {
    return bytes >= 0 && static_cast<uint64_t>(bytes) >= elements_of(tensor);
}

enum Cell : int32_t { kReluCell = 0, kTanhCell = 1, kLstm = 2, kGru = 3 };
enum BiasMode : int32_t { kNoBias = 0, kInputBias = 1, kBothBiases = 2, kRecurrentBias = 3 };
enum RnnLayout : int32_t { kTimeFirst = 0, kPacked = 1, kBatchFirst = 2 };

constexpr Type type_of(const Rnn& rnn) {
    return element_type(rnn.type);
}
constexpr Type type_of(const RnnData& data) {
    return element_type(data.type);
}

constexpr bool is_rnn(const Rnn& rnn) {
    const auto within = [](int32_t value, int32_t last) { return value >= 0 && value <= last; };
    return within(rnn.algorithm, 3) && within(rnn.cell, kGru) && within(rnn.bias, kRecurrentBias) &&
           within(rnn.direction, 1) && within(rnn.input, 1) && within(rnn.math, 3) && rnn.flags <= 1 &&
           rnn.input_size >= 1 && rnn.hidden_size >= 1 && rnn.layers >= 1 &&
           within(rnn.projection_size, rnn.hidden_size) && element_type(rnn.type) != kNoType &&
           element_type(rnn.compute) != kNoType && is_dropout(rnn.dropout);
}
// Not done: the first layer's input without a matrix, and projections.
constexpr bool is_done(const Rnn& rnn) {
    return is_real(rnn.type) && rnn.input == 0 &&
           (rnn.projection_size == 0 || rnn.projection_size == rnn.hidden_size);
}

constexpr uint64_t directions_of(const Rnn& rnn) {
    return static_cast<uint64_t>(rnn.direction) + 1;
}
// Numbers of all gates of a cell.
constexpr uint64_t gates_of(const Rnn& rnn) {
    return product(rnn.cell == kLstm ? 4 : rnn.cell == kGru ? 3 : 1, length(rnn.hidden_size));
}
constexpr uint64_t bias_lists_of(const Rnn& rnn) {
    return rnn.bias == kNoBias ? 0 : rnn.bias == kBothBiases ? 2 : 1;
}
// Of what a layer gives on, of all directions.
constexpr uint64_t width_of(const Rnn& rnn) {
    return product(directions_of(rnn), length(rnn.hidden_size));
}
// Of what the pseudo-layer, a layer's one direction, takes.
constexpr uint64_t input_of(const Rnn& rnn, uint64_t pseudo_layer) {
    return pseudo_layer < directions_of(rnn) ? length(rnn.input_size) : width_of(rnn);
}
constexpr uint64_t pseudo_layers_of(const Rnn& rnn) {
    return product(directions_of(rnn), length(rnn.layers));
}

// Weights lie as frameworks know it of cuDNN: for each pseudo-layer the gates' matrices for its input and
// those for its state, by rows; after the last of all, the biases in the same order.
constexpr uint64_t matrices_before(const Rnn& rnn, uint64_t pseudo_layer) {
    const uint64_t first = product(gates_of(rnn), sum(length(rnn.input_size), length(rnn.hidden_size)));
    const uint64_t other = product(gates_of(rnn), sum(width_of(rnn), length(rnn.hidden_size)));
    const uint64_t firsts = std::min(pseudo_layer, directions_of(rnn));
    return sum(product(firsts, first), product(pseudo_layer - firsts, other));
}
constexpr uint64_t biases_before(const Rnn& rnn, uint64_t pseudo_layer) {
    const uint64_t matrices = matrices_before(rnn, pseudo_layers_of(rnn));
    return sum(matrices, product(product(pseudo_layer, bias_lists_of(rnn)), gates_of(rnn)));
}
constexpr uint64_t weights_of(const Rnn& rnn) {
    return biases_before(rnn, pseudo_layers_of(rnn));
}
constexpr bool has_room_for_weights(int64_t bytes, const Rnn& rnn) {
    return bytes >= 0 && static_cast<uint64_t>(bytes) >= product(weights_of(rnn), bytes_of(type_of(rnn)));
}
// As many numbers as so many bytes are begun with.
constexpr Extent holding(int64_t bytes, Type type) {
    const int64_t each = bytes_of(type);
    return {each > 0, each > 0 ? length(bytes / each) + (bytes % each > 0) : 0};
}

// Of the matrix and the bias of one gate: for the pseudo-layer's input, and behind them for its state.
struct WeightPlace {
    bool has_bias;
    uint64_t matrix, rows, columns, bias;
};
constexpr WeightPlace weight_place(const Rnn& rnn, uint64_t pseudo_layer, uint64_t gate) {
    const uint64_t hidden = length(rnn.hidden_size), gates = gates_of(rnn) / hidden,
                   input = input_of(rnn, pseudo_layer);
    const bool is_state = gate >= gates;
    const uint64_t own = is_state ? gate - gates : gate, before = matrices_before(rnn, pseudo_layer);
    const uint64_t columns = is_state ? hidden : input;
    const uint64_t matrices = sum(before, is_state ? product(gates_of(rnn), input) : 0);
    const bool has_bias = rnn.bias == kBothBiases || rnn.bias == (is_state ? kRecurrentBias : kInputBias);
    const uint64_t list = rnn.bias == kBothBiases && is_state ? gates_of(rnn) : 0;
    return {has_bias, sum(matrices, product(product(own, hidden), columns)), hidden, columns,
            sum(biases_before(rnn, pseudo_layer), sum(list, product(own, hidden)))};
}

constexpr int64_t length_of(const RnnData& data, int64_t sequence) {
    return data.lengths[data.listed ? sequence : 0];
}
constexpr bool is_rnn_data(const RnnData& data) {
    if (element_type(data.type) == kNoType || data.layout < kTimeFirst || data.layout > kBatchFirst)
        return false;
    if (data.max_length < 1 || data.batch < 1 || data.batch > kMostArrays || data.vector_size < 1)
        return false;
    if (data.listed < 0 || data.listed > 1 || data.fills < 0 || data.fills > 1) return false;
    // So what a batch is worked on in is bounded by memory that is there.
    if (!data.listed) return data.lengths[0] >= 1 && data.lengths[0] <= data.max_length;
    if (data.batch > kMostLengths) return false;
    for (int i = 0; i < data.batch; ++i) {
        if (data.lengths[i] < 0 || data.lengths[i] > data.max_length) return false;
        if (data.layout == kPacked && i > 0 && data.lengths[i] > data.lengths[i - 1]) return false;
    }
    return true;
}
// Steps of all sequences.
constexpr uint64_t steps_of(const RnnData& data) {
    if (!data.listed) return product(length(data.batch), length(data.lengths[0]));
    uint64_t steps = 0;
    for (int i = 0; i < std::min(data.batch, kMostLengths); ++i) steps = sum(steps, length(data.lengths[i]));
    return steps;
}
constexpr Extent spanned(const RnnData& data) {
    if (!is_rnn_data(data)) return {false, 0};
    const uint64_t places =
        data.layout == kPacked ? steps_of(data) : product(length(data.max_length), length(data.batch));
    return {true, product(places, length(data.vector_size))};
}
constexpr bool same_sequences(const RnnData& a, const RnnData& b) {
    bool same = a.batch == b.batch && is_rnn_data(a) && is_rnn_data(b);
    const int64_t count = a.listed || b.listed ? a.batch : 1;
    for (int64_t i = 0; same && i < count; ++i) same = length_of(a, i) == length_of(b, i);
    return same;
}
// A layout with room behind a sequence's end is one that the program has asked for.
constexpr bool may_pad(const Rnn& rnn, const RnnData& data) {
    const bool is_full = !data.listed && data.lengths[0] == data.max_length;
    return rnn.flags == 1 || data.layout == kPacked || is_full;
}

// What a software GPU's forward pass leaves of so many rows, in numbers. For each pseudo-layer its gates,
// what its cell knows beside them (an LSTM's memory, what the state gives to a GRU's candidate) and room for
// the gates' slopes; for each layer what it gives on; between two layers by what each number was multiplied
// for dropout. One that `keeps` nothing has room for one pseudo-layer and two layers.
constexpr uint64_t beside_of(const Rnn& rnn) {
    return rnn.cell == kLstm || rnn.cell == kGru ? length(rnn.hidden_size) : 0;
}
constexpr uint64_t slopes_of(const Rnn& rnn) {
    return sum(gates_of(rnn), rnn.cell == kGru ? length(rnn.hidden_size) : 0);
}
constexpr uint64_t tape_of(const Rnn& rnn, bool keeps, uint64_t rows) {
    const uint64_t once = sum(gates_of(rnn), beside_of(rnn));
    const uint64_t pseudo = keeps ? product(pseudo_layers_of(rnn), sum(once, slopes_of(rnn))) : once;
    const uint64_t layers = product(keeps ? product(2, length(rnn.layers)) : 2, width_of(rnn));
    return product(rows, sum(pseudo, layers));
}
// cudnnGetRNNTempSpaceSizes' answer there.
constexpr uint64_t reserve_bytes_of(const Rnn& rnn, const RnnData& data) {
    return product(tape_of(rnn, true, steps_of(data)), bytes_of(scale_of(rnn)));
}
inline void limit_reserve(Look& look, bool keeps, int64_t bytes, const Rnn& rnn, const RnnData& data) {
    if (keeps && length(bytes) < reserve_bytes_of(rnn, data) && look.end().threads != 0)
        look.refuse(Fit::invalid, "the reserve space has less memory than cudnnGetRNNTempSpaceSizes says");
}

// The states of all pseudo-layers; dimensions of 1 may follow.
constexpr bool is_state(const Tensor& states, const Rnn& rnn, const RnnData& data) {
    for (int i = 3; i < std::min(states.rank, kMostDims); ++i) {
        if (states.dims[i] != 1) return false;
    }
    return is_tensor(states) && states.rank >= 3 && states.type == rnn.type && states.dims[1] == data.batch &&
           length(states.dims[0]) == pseudo_layers_of(rnn) && states.dims[2] == rnn.hidden_size;
}
constexpr bool recurs(const Rnn& rnn, const RnnData& x, const RnnData& y, const Tensor& h, const Tensor& c) {
    return is_rnn(rnn) && same_sequences(x, y) && x.type == rnn.type && y.type == rnn.type &&
           x.vector_size == rnn.input_size && length(y.vector_size) == width_of(rnn) &&
           (h.rank == 0 || is_state(h, rnn, x)) && (rnn.cell != kLstm || c.rank == 0 || is_state(c, rnn, x));
}
constexpr bool is_done(const Rnn& rnn, const RnnData& x, const RnnData& y) {
    return is_done(rnn) && may_pad(rnn, x) && may_pad(rnn, y);
}

}  // namespace maths::cudnn
