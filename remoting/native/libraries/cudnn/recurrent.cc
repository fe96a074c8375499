// Recurrent layers' descriptors, in the program's process, and what is asked of them.
#include <algorithm>
#include <cstring>

#include "cudnn_messages.h"
#include "describing.h"
#include "own_call.h"
#include "roles.h"

using namespace cudnn;
using namespace maths;
using namespace maths::cudnn;

DESCRIPTOR(RNN, Recurrent)
DESCRIPTOR(RNNData, RnnData)

CUDNN_EXPORT int cudnnSetRNNDescriptor_v8(void* descriptor, int algorithm, int cell, int bias, int direction, int input,
                                          int type, int compute, int math, int input_size, int hidden_size,
                                          int projection_size, int layers, void* dropout, unsigned flags) {
    const auto dropped = all<Dropout>().find(dropout);
    if (dropout && !dropped) return kBadParameter;
    const Rnn rnn{algorithm,       cell,   bias,  direction, input, type, compute, math, input_size, hidden_size,
                  projection_size, layers, flags, 0,         {}};
    if (!is_rnn(rnn)) return kBadParameter;
    if (!is_done(rnn)) return library_unsupported("cudnnSetRNNDescriptor_v8 with a skipped input, or a projection, or of this type,");
    return set(descriptor, Recurrent{rnn, dropout, dropped});
}

CUDNN_EXPORT int cudnnGetRNNDescriptor_v8(void* descriptor, int* algorithm, int* cell, int* bias, int* direction,
                                          int* input, int* type, int* compute, int* math, int* input_size,
                                          int* hidden_size, int* projection_size, int* layers, void** dropout,
                                          unsigned* flags) {
    return with<Recurrent>(descriptor, [&](const Recurrent& made) {
        const Rnn& own = made.layers;
        give(dropout, made.dropout_given);
        give(algorithm, own.algorithm), give(cell, own.cell), give(bias, own.bias), give(direction, own.direction);
        give(input, own.input), give(type, own.type), give(compute, own.compute), give(math, own.math);
        give(input_size, own.input_size), give(hidden_size, own.hidden_size);
        give(projection_size, own.projection_size), give(layers, own.layers), give(flags, own.flags);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnSetRNNDataDescriptor(void* descriptor, int type, int layout, int max_length, int batch,
                                           int vector_size, const int* lengths, const void* fill) {
    if (!lengths || batch < 1 || element_type(type) == kNoType) return kBadParameter;
    RnnData data{type, layout, max_length, batch, vector_size, 0, fill != nullptr, 0, {}, {}};
    if (fill) std::memcpy(data.fill, fill, bytes_of(type_of(data)));
    data.listed = std::any_of(lengths, lengths + batch, [&](int each) { return each != lengths[0]; }) || lengths[0] == 0;
    if (data.listed && batch > kMostLengths) {
        return library_unsupported("cudnnSetRNNDataDescriptor of more than 1024 sequences of different lengths");
    }
    std::copy_n(lengths, data.listed ? batch : 1, data.lengths);
    return is_rnn_data(data) ? set(descriptor, data) : kBadParameter;
}

CUDNN_EXPORT int cudnnGetRNNDataDescriptor(void* descriptor, int* type, int* layout, int* max_length, int* batch,
                                           int* vector_size, int asked, int* lengths, void* fill) {
    if (asked < 0) return kBadParameter;
    return with<RnnData>(descriptor, [&](const RnnData& own) {
        give(type, own.type), give(layout, own.layout), give(max_length, own.max_length), give(batch, own.batch);
        give(vector_size, own.vector_size);
        for (int i = 0; lengths && i < std::min(asked, own.batch); ++i) lengths[i] = static_cast<int>(length_of(own, i));
        if (fill && own.fills) std::memcpy(fill, own.fill, bytes_of(type_of(own)));
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetRNNWeightSpaceSize(void* handle, void* descriptor, size_t* bytes) {
    if (!bytes) return kNullPointer;
    if (!all<Handle>().find(handle)) return kBadParameter;
    return with<Recurrent>(descriptor, [&](const Recurrent& made) {
        const Rnn& own = made.layers;
        if (!is_rnn(own)) return kBadParameter;
        *bytes = product(weights_of(own), bytes_of(type_of(own)));
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetRNNTempSpaceSizes(void* handle, void* descriptor, int mode, void* x, size_t* work,
                                           size_t* reserve) {
    if (!descriptor || !x) return kNullPointer;
    OwnCall call(handle, k_cudnnGetRNNTempSpaceSizes, false);
    recur_room message{};
    call.describe(message.rnnDesc, descriptor);
    call.describe(message.xDesc, x);
    message.fwdMode = mode;
    OwnCall::Answer answer;
    const int status = call.ask(&message, sizeof message, message.answer, answer);
    if (status == kSuccess) give(work, answer.numbers[0]), give(reserve, answer.numbers[1]);
    return status;
}

namespace {

// A list of `rows`, each of `columns` numbers, at `place` of the weights; without any, no tensor.
void give_place(void* descriptor, void** address, bool is_there, const Rnn& rnn, const void* weights, uint64_t place,
                uint64_t rows, uint64_t columns) {
    if (!address) return;
    Tensor tensor{rnn.type, is_there ? 3 : 0, {1, static_cast<int64_t>(rows), static_cast<int64_t>(columns)}, {}};
    if (is_there) pack(tensor, false);
    set(descriptor, is_there ? tensor : Tensor{rnn.type, 0, {}, {}});
    const uint64_t at = reinterpret_cast<uint64_t>(weights) + product(place, bytes_of(type_of(rnn)));
    *address = is_there ? reinterpret_cast<void*>(at) : nullptr;
}

}  // namespace

CUDNN_EXPORT int cudnnGetRNNWeightParams(void* handle, void* descriptor, int pseudo_layer, size_t bytes,
                                         const void* weights, int gate, void* matrix_descriptor, void** matrix,
                                         void* bias_descriptor, void** bias) {
    // What is not asked for, no place is given for.
    const auto is_pair = [](const void* made, void** address) {
        return made ? address && all<Tensor>().find(made) : !address;
    };
    if (!all<Handle>().find(handle) || !is_pair(matrix_descriptor, matrix) || !is_pair(bias_descriptor, bias)) {
        return kBadParameter;
    }
    return with<Recurrent>(descriptor, [&](const Recurrent& made) {
        const Rnn& own = made.layers;
        if (!is_rnn(own) || product(weights_of(own), bytes_of(type_of(own))) > bytes) return kBadParameter;
        if (pseudo_layer < 0 || length(pseudo_layer) >= pseudo_layers_of(own) || gate < 0) return kBadParameter;
        // An LSTM has one more where there is a projection.
        const uint64_t gates = 2 * gates_of(own) / length(own.hidden_size);
        const bool is_projection = own.cell == kLstm && length(gate) == gates;
        if (length(gate) >= gates && !is_projection) return kBadParameter;
        const WeightPlace place = is_projection ? WeightPlace{} : weight_place(own, length(pseudo_layer), length(gate));
        give_place(matrix_descriptor, matrix, !is_projection, own, weights, place.matrix, place.rows, place.columns);
        give_place(bias_descriptor, bias, place.has_bias, own, weights, place.bias, place.rows, 1);
        return kSuccess;
    });
}
