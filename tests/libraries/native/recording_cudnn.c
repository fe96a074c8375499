/* A library with the ABI of NVIDIA's cuDNN, as its public documentation has it, which computes nothing and writes down
 * what each function was given, a descriptor as what it was set to: for tests/libraries/test_nvidia_cudnn.py.
 * RECORDING_CUDNN_LOG names the file. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default"))) int

static int handles, live;

static int record(const char* format, ...) {
    const char* path = getenv("RECORDING_CUDNN_LOG");
    FILE* log = path ? fopen(path, "a") : NULL;
    va_list values;
    if (!log) return 4000;
    va_start(values, format);
    vfprintf(log, format, values);
    va_end(values);
    fputc('\n', log);
    fclose(log);
    return 0;
}

EXPORT cudnnCreate(void** handle) {
    *handle = (void*)(intptr_t)(0x1000 + ++handles);
    return record("create %d", handles);
}
EXPORT cudnnSetStream(void* handle, void* stream) {
    return record("stream %p %s", handle, stream ? "own" : "default");
}

typedef struct {
    char text[512];
    size_t length;
    int cell, bias, directions, inputs, hidden, layers; /* of recurrent layers */
} Descriptor;

static int create(Descriptor** made) {
    *made = calloc(1, sizeof **made);
    ++live;
    return *made ? 0 : 4003;
}
static int destroy(Descriptor* made) {
    --live;
    free(made);
    return 0;
}
static int note(Descriptor* made, const char* format, ...) {
    va_list values;
    va_start(values, format);
    made->length += (size_t)vsnprintf(made->text + made->length, sizeof made->text - made->length, format, values);
    va_end(values);
    return 0;
}
static int notes(Descriptor* made, int count, const int* values) {
    note(made, "[");
    for (int i = 0; i < count; ++i) note(made, i ? ",%d" : "%d", values[i]);
    return note(made, "]");
}

#define DESCRIPTOR(name)                                 \
    EXPORT cudnnCreate##name##Descriptor(void** made) {  \
        return create((Descriptor**)made);               \
    }                                                    \
    EXPORT cudnnDestroy##name##Descriptor(void* made) {  \
        return destroy(made);                            \
    }
DESCRIPTOR(Tensor)
DESCRIPTOR(Filter)
DESCRIPTOR(Convolution)
DESCRIPTOR(Pooling)
DESCRIPTOR(Activation)
DESCRIPTOR(LRN)

EXPORT cudnnSetTensorNdDescriptor(Descriptor* made, int type, int rank, const int* dims, const int* strides) {
    note(made, "%d:", type);
    notes(made, rank, dims);
    return notes(made, rank, strides);
}
EXPORT cudnnSetFilterNdDescriptor(Descriptor* made, int type, int format, int rank, const int* dims) {
    note(made, "%d:%d:", type, format);
    return notes(made, rank, dims);
}
EXPORT cudnnSetConvolutionNdDescriptor(Descriptor* made, int rank, const int* pads, const int* strides,
                                       const int* dilations, int mode, int type) {
    notes(made, rank, pads), notes(made, rank, strides), notes(made, rank, dilations);
    return note(made, "%d:%d", mode, type);
}
EXPORT cudnnSetConvolutionGroupCount(Descriptor* made, int groups) {
    return note(made, ":g%d", groups);
}
EXPORT cudnnSetConvolutionMathType(Descriptor* made, int math) {
    return note(made, ":m%d", math);
}
EXPORT cudnnSetPoolingNdDescriptor(Descriptor* made, int mode, int nan, int rank, const int* window, const int* pads,
                                   const int* strides) {
    note(made, "%d:%d:", mode, nan);
    return notes(made, rank, window), notes(made, rank, pads), notes(made, rank, strides);
}
EXPORT cudnnSetActivationDescriptor(Descriptor* made, int mode, int nan, double coefficient) {
    return note(made, "%d:%d:%g", mode, nan, coefficient);
}
EXPORT cudnnSetLRNDescriptor(Descriptor* made, unsigned n, double alpha, double beta, double k) {
    return note(made, "%u:%g:%g:%g", n, alpha, beta, k);
}

DESCRIPTOR(CTCLoss)
DESCRIPTOR(SpatialTransformer)

EXPORT cudnnSetCTCLossDescriptor_v9(Descriptor* made, int type, int normalization, int mode, int most) {
    return note(made, "%d:%d:%d:%d", type, normalization, mode, most);
}
EXPORT cudnnSetSpatialTransformerNdDescriptor(Descriptor* made, int sampler, int type, int rank, const int* dims) {
    note(made, "%d:%d:", sampler, type);
    return notes(made, rank, dims);
}
EXPORT cudnnGetCTCLossWorkspaceSize_v8(void* handle, int algorithm, Descriptor* by, Descriptor* from, Descriptor* to,
                                       size_t* bytes) {
    *bytes = 5000;
    return record("CtcRoom %d %s %s %s", algorithm, by->text, from->text, to->text);
}
EXPORT cudnnCTCLoss_v8(void* handle, int algorithm, Descriptor* by, Descriptor* from_is, void* from, void* labels,
                       void* label_lengths, void* lengths, void* costs, Descriptor* to_is, void* to, size_t bytes,
                       void* space) {
    return record("Ctc %d %s %s %p %p %p %p %p %s %p %zu %s", algorithm, by->text, from_is->text, from, labels,
                  label_lengths, lengths, costs, to_is->text, to, bytes, space ? "room" : "none");
}
EXPORT cudnnSpatialTfGridGeneratorForward(void* handle, Descriptor* by, void* map, void* grid) {
    return record("Grid %s %p %p", by->text, map, grid);
}
EXPORT cudnnSpatialTfGridGeneratorBackward(void* handle, Descriptor* by, void* grid, void* map) {
    return record("GridBack %s %p %p", by->text, grid, map);
}
EXPORT cudnnSpatialTfSamplerForward(void* handle, Descriptor* by, const float* alpha, Descriptor* x_is, void* x, void* grid,
                                    const float* beta, Descriptor* y_is, void* y) {
    return record("Sample %s %g %s %p %p %g %s %p", by->text, *alpha, x_is->text, x, grid, *beta, y_is->text, y);
}
EXPORT cudnnSpatialTfSamplerBackward(void* handle, Descriptor* by, const float* alpha, Descriptor* x_is, void* x,
                                     const float* beta, Descriptor* dx_is, void* dx, const float* grid_alpha,
                                     Descriptor* dy_is, void* dy, void* grid, const float* grid_beta, void* dgrid) {
    return record("SampleBack %s %g %s %p %g %s %p %g %s %p %p %g %p", by->text, *alpha, x_is->text, x, *beta, dx_is->text, dx,
                  *grid_alpha, dy_is->text, dy, grid, *grid_beta, dgrid);
}

DESCRIPTOR(Dropout)
DESCRIPTOR(RNN)
DESCRIPTOR(RNNData)
DESCRIPTOR(ReduceTensor)

EXPORT cudnnDropoutGetStatesSize(void* handle, size_t* bytes) {
    *bytes = 1000;
    return record("States");
}
EXPORT cudnnSetDropoutDescriptor(Descriptor* made, void* handle, float rate, void* states, size_t bytes,
                                 unsigned long long seed) {
    if (states) record("Seed %g %p %zu %llu", rate, states, bytes, seed);
    return note(made, "%g:%p:%zu:%llu", rate, states, bytes, seed);
}
EXPORT cudnnRestoreDropoutDescriptor(Descriptor* made, void* handle, float rate, void* states, size_t bytes,
                                     unsigned long long seed) {
    return note(made, "%g:%p:%zu:%llu", rate, states, bytes, seed);
}
EXPORT cudnnDropoutForward(void* handle, Descriptor* by, Descriptor* x_is, void* x, Descriptor* y_is, void* y,
                           void* reserve, size_t bytes) {
    return record("Drop %s %s %p %s %p %p %zu", by->text, x_is->text, x, y_is->text, y, reserve, bytes);
}

EXPORT cudnnSetRNNDescriptor_v8(Descriptor* made, int algorithm, int cell, int bias, int direction, int input, int type,
                                int compute, int math, int inputs, int hidden, int projection, int layers,
                                Descriptor* dropout, unsigned flags) {
    made->cell = cell, made->bias = bias, made->directions = direction + 1;
    made->inputs = inputs, made->hidden = hidden, made->layers = layers;
    return note(made, "%d:%d:%d:%d:%d:%d:%d:%d:%d:%d:%d:%d:%u:(%s)", algorithm, cell, bias, direction, input, type, compute,
                math, inputs, hidden, projection, layers, flags, dropout->text);
}
EXPORT cudnnSetRNNDataDescriptor(Descriptor* made, int type, int layout, int longest, int batch, int width,
                                 const int* lengths, const float* fill) {
    note(made, "%d:%d:%d:%d:%g", type, layout, longest, width, fill ? *fill : -1);
    return notes(made, batch, lengths);
}
EXPORT cudnnGetRNNTempSpaceSizes(void* handle, Descriptor* by, int mode, Descriptor* x, size_t* work, size_t* reserve) {
    *work = (size_t)(5 << 20), *reserve = mode ? 4321 : 0; /* more than the stream has */
    return record("Room %s %d %s", by->text, mode, x->text);
}

/* Matrices first, then biases. A GRU's lie elsewhere than our library says, as another release's might. */
static size_t gates_of(const Descriptor* by) {
    return (by->cell == 2 ? 4 : by->cell == 3 ? 3 : 1) * (size_t)by->hidden;
}
static size_t matrices_of(const Descriptor* by, int layer) {
    const size_t width = layer < by->directions ? (size_t)by->inputs : (size_t)(by->directions * by->hidden);
    return gates_of(by) * (width + (size_t)by->hidden);
}
static size_t lists_of(const Descriptor* by) {
    return by->bias == 0 ? 0 : by->bias == 2 ? 2 : 1;
}
EXPORT cudnnGetRNNWeightSpaceSize(void* handle, Descriptor* by, size_t* bytes) {
    *bytes = 0;
    for (int i = 0; i < by->layers * by->directions; ++i) *bytes += 4 * (matrices_of(by, i) + lists_of(by) * gates_of(by));
    return 0;
}
EXPORT cudnnGetRNNWeightParams(void* handle, Descriptor* by, int layer, size_t bytes, const float* weights, int gate,
                               Descriptor* matrix_is, const float** matrix, Descriptor* bias_is, const float** bias) {
    const size_t width = layer < by->directions ? (size_t)by->inputs : (size_t)(by->directions * by->hidden);
    const size_t gates = gates_of(by) / (size_t)by->hidden, own = (size_t)gate % gates, hidden = (size_t)by->hidden;
    const int of_state = (size_t)gate >= gates;
    *matrix = weights + (by->cell == 3);
    for (int i = 0; i < layer; ++i) *matrix += matrices_of(by, i);
    *matrix += (of_state ? gates * hidden * width : 0) + own * hidden * (of_state ? hidden : width);
    *bias = weights;
    for (int i = 0; i < by->layers * by->directions; ++i) *bias += matrices_of(by, i);
    *bias += ((size_t)layer * lists_of(by) + (by->bias == 2 && of_state)) * gates_of(by) + own * hidden;
    if (by->bias == 0 || (by->bias == 1 && of_state) || (by->bias == 3 && !of_state)) *bias = NULL;
    return 0;
}
EXPORT cudnnRNNForward(void* handle, Descriptor* by, int mode, void* lengths, Descriptor* x_is, void* x, Descriptor* y_is,
                       void* y, Descriptor* h_is, void* hx, void* hy, Descriptor* c_is, void* cx, void* cy, size_t bytes,
                       void* weights, size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
    return record("Recur %s %d %p %s %p %s %p %s %p %p %s %p %p %zu %p %zu %s %zu %p", by->text, mode, lengths, x_is->text, x,
                  y_is->text, y, h_is->text, hx, hy, c_is->text, cx, cy, bytes, weights, work_bytes,
                  work ? "room" : "none", reserve_bytes, reserve);
}
EXPORT cudnnRNNBackwardData_v8(void* handle, Descriptor* by, void* lengths, Descriptor* y_is, void* y, void* dy,
                               Descriptor* x_is, void* dx, Descriptor* h_is, void* hx, void* dhy, void* dhx,
                               Descriptor* c_is, void* cx, void* dcy, void* dcx, size_t bytes, void* weights,
                               size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
    return record("RecurData %s %p %s %p %p %s %p %s %p %p %p %s %p %p %p %zu %p %zu %s %zu %p", by->text, lengths,
                  y_is->text, y, dy, x_is->text, dx, h_is->text, hx, dhy, dhx, c_is->text, cx, dcy, dcx, bytes, weights,
                  work_bytes, work ? "room" : "none", reserve_bytes, reserve);
}
EXPORT cudnnRNNBackwardWeights_v8(void* handle, Descriptor* by, int mode, void* lengths, Descriptor* x_is, void* x,
                                  Descriptor* h_is, void* hx, Descriptor* y_is, void* y, size_t bytes, void* weights,
                                  size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
    return record("RecurWeights %s %d %p %s %p %s %p %s %p %zu %p %zu %s %zu %p", by->text, mode, lengths, x_is->text, x,
                  h_is->text, hx, y_is->text, y, bytes, weights, work_bytes, work ? "room" : "none", reserve_bytes,
                  reserve);
}

EXPORT cudnnSetReduceTensorDescriptor(Descriptor* made, int op, int type, int nan, int indices, int index_type) {
    return note(made, "%d:%d:%d:%d:%d", op, type, nan, indices, index_type);
}
EXPORT cudnnGetReductionWorkspaceSize(void* handle, Descriptor* by, Descriptor* a, Descriptor* c, size_t* bytes) {
    *bytes = 3000;
    return 0;
}
EXPORT cudnnReduceTensor(void* handle, Descriptor* by, void* indices, size_t index_bytes, void* space, size_t bytes,
                         const float* alpha, Descriptor* a_is, void* a, const float* beta, Descriptor* c_is, void* c) {
    return record("Reduce %s %s %zu %g %s %p %g %s %p", by->text, space ? "room" : "none", bytes, *alpha, a_is->text, a,
                  *beta, c_is->text, c);
}

/* Which algorithm is the best, and what it wants to work in: the first wants too much. */
typedef struct {
    int algorithm, status;
    float milliseconds;
    size_t memory;
    int determinism, math, reserved[3];
} Performance;

static int algorithms(int most, int* count, Performance* found) {
    const Performance best[] = {{4, 0, 1, (size_t)1 << 30, 0, 0, {0}}, {5, 3000, 1, 0, 0, 0, {0}}, {6, 0, 1, 64, 0, 0, {0}}};
    for (*count = 0; *count < 3 && *count < most; ++*count) found[*count] = best[*count];
    return 0;
}
#define ALGORITHMS(name)                                                                                     \
    EXPORT name(void* handle, Descriptor* a, Descriptor* b, Descriptor* by, Descriptor* c, int most, int* count, \
                Performance* found) {                                                                        \
        record(#name " %s %s %s %s", a->text, b->text, by->text, c->text);                                   \
        return algorithms(most, count, found);                                                               \
    }
ALGORITHMS(cudnnGetConvolutionForwardAlgorithm_v7)
ALGORITHMS(cudnnGetConvolutionBackwardDataAlgorithm_v7)
ALGORITHMS(cudnnGetConvolutionBackwardFilterAlgorithm_v7)

EXPORT cudnnConvolutionForward(void* handle, const float* alpha, Descriptor* x_is, void* x, Descriptor* w_is, void* w,
                               Descriptor* by, int algorithm, void* space, size_t bytes, const float* beta,
                               Descriptor* y_is, void* y) {
    return record("Forward %g %s %p %s %p %s %d %zu %g %s %p", *alpha, x_is->text, x, w_is->text, w, by->text, algorithm,
                  space ? bytes : 0, *beta, y_is->text, y);
}
EXPORT cudnnConvolutionBackwardData(void* handle, const double* alpha, Descriptor* w_is, void* w, Descriptor* dy_is,
                                    void* dy, Descriptor* by, int algorithm, void* space, size_t bytes,
                                    const double* beta, Descriptor* dx_is, void* dx) {
    return record("BackwardData %g %s %p %s %p %s %d %p %zu %g %s %p", *alpha, w_is->text, w, dy_is->text, dy, by->text,
                  algorithm, space, bytes, *beta, dx_is->text, dx);
}
EXPORT cudnnConvolutionBiasActivationForward(void* handle, const float* alpha1, Descriptor* x_is, void* x, Descriptor* w_is,
                                             void* w, Descriptor* by, int algorithm, void* space, size_t bytes,
                                             const float* alpha2, Descriptor* z_is, void* z, Descriptor* bias_is, void* bias,
                                             Descriptor* activation, Descriptor* y_is, void* y) {
    return record("Fused %g %s %p %s %p %s %d %zu %g %s %p %s %p %s %s %p", *alpha1, x_is->text, x, w_is->text, w, by->text,
                  algorithm, space ? bytes : 0, *alpha2, z_is->text, z, bias_is->text, bias, activation->text, y_is->text, y);
}
EXPORT cudnnPoolingForward(void* handle, Descriptor* by, const float* alpha, Descriptor* x_is, void* x,
                           const float* beta, Descriptor* y_is, void* y) {
    return record("Pooling %s %g %s %p %g %s %p", by->text, *alpha, x_is->text, x, *beta, y_is->text, y);
}
EXPORT cudnnActivationForward(void* handle, Descriptor* by, const float* alpha, Descriptor* x_is, void* x,
                              const float* beta, Descriptor* y_is, void* y) {
    return record("Activation %s %g %s %p %g %s %p", by->text, *alpha, x_is->text, x, *beta, y_is->text, y);
}
EXPORT cudnnBatchNormalizationForwardTraining(void* handle, int mode, const float* alpha, const float* beta,
                                              Descriptor* x_is, void* x, Descriptor* y_is, void* y, Descriptor* is,
                                              void* scale, void* bias, double factor, void* mean, void* variance,
                                              double epsilon, void* saved_mean, void* saved_inverse) {
    return record("Normalization %d %g %g %s %p %s %p %s %p %p %g %p %p %g %p %p", mode, *alpha, *beta, x_is->text, x,
                  y_is->text, y, is->text, scale, bias, factor, mean, variance, epsilon, saved_mean, saved_inverse);
}
/* The library may refuse what it does not do. The descriptors of earlier calls are gone: this one's is alone. */
EXPORT cudnnScaleTensor(void* handle, Descriptor* is, void* y, const float* alpha) {
    record("Scale %s %p %g", is->text, y, *alpha);
    record("Live %d", live);
    return 3002;
}
