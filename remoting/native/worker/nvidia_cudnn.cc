#include "nvidia_cudnn.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cudnn_messages.h"
#include "libraries/cudnn/status.h"
#include "nvidia_function.h"

namespace worker {
namespace {

using namespace maths::cudnn;

constexpr const char* kOtherRelease =
    ": the GPU server has a release of cuDNN that lays them out differently; its admin "
    "installs the one that the program's framework names";
constexpr const char* kNormalizedAlone =
    "batch normalisation with an activation or a sum wants room that NVIDIA's library alone can tell: do "
    "both behind it, "
    "by calls of their own";

// cudnnConvolutionFwdAlgoPerf_t, and those of the other two, which are alike.
struct Performance {
    int algorithm, status;
    float milliseconds;
    size_t memory;
    int determinism, math, reserved[3];
};

// What the generated calls ask for (cudnn_nvidia.inc). The first error of all that is done for a call stays.
class Calling {
  public:
    explicit Calling(const CudnnCall& call) : handle(call.handle), call_(call) {
        status_ = plain("cudnnSetStream", handle, call.stream);
    }
    ~Calling() {
        // The last first: it may hold an earlier one.
        for (auto each = made_.rbegin(); each != made_.rend(); ++each) {
            plain(("cudnnDestroy" + each->kind + "Descriptor").c_str(), each->descriptor);
        }
    }
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;

    void* const handle;
    static constexpr bool wide = false;

    const void* scalar(const maths::Scalar& scalar) const { return scalar.bytes; }

    void* descriptor(const Tensor& tensor) {
        if (tensor.rank == 0) return nullptr;
        int dims[kMostDims], strides[kMostDims];
        for (int i = 0; i < tensor.rank; ++i) {
            dims[i] = as_int(tensor.dims[i]), strides[i] = as_int(tensor.strides[i]);
        }
        return make("Tensor", "cudnnSetTensorNdDescriptor", tensor.type, tensor.rank, dims, strides);
    }
    void* descriptor(const Filter& filter) {
        int dims[kMostDims];
        for (int i = 0; i < filter.rank; ++i) dims[i] = as_int(filter.dims[i]);
        return make("Filter", "cudnnSetFilterNdDescriptor", filter.type, filter.format, filter.rank, dims);
    }
    void* descriptor(const Convolution& by) {
        // The older functions pad both sides alike.
        const bool alike = std::equal(by.pads, by.pads + by.rank, by.pads_after);
        if (!alike)
            refuse(
                "NVIDIA's older functions pad both sides alike, and this convolution's differ: pad its image "
                "first");
        void* const made = make("Convolution", "cudnnSetConvolutionNdDescriptor", by.rank, by.pads,
                                by.strides, by.dilations, by.mode, by.compute);
        set("cudnnSetConvolutionGroupCount", made, by.groups);
        set("cudnnSetConvolutionMathType", made, by.math);
        return made;
    }
    void* descriptor(const Pooling& by) {
        return make("Pooling", "cudnnSetPoolingNdDescriptor", by.mode, by.nan, by.rank, by.window, by.pads,
                    by.strides);
    }
    void* descriptor(const Activation& by) {
        void* const made =
            make("Activation", "cudnnSetActivationDescriptor", by.mode, by.nan, by.coefficient);
        if (by.mode == kSwish) set("cudnnSetActivationDescriptorSwishBeta", made, by.swish_beta);
        return made;
    }
    void* descriptor(const Lrn& by) {
        return make("LRN", "cudnnSetLRNDescriptor", by.n, by.alpha, by.beta, by.k);
    }
    void* descriptor(const OpTensor& by) {
        return make("OpTensor", "cudnnSetOpTensorDescriptor", by.op, by.compute, by.nan);
    }
    void* descriptor(const Reduction& by) {
        return make("ReduceTensor", "cudnnSetReduceTensorDescriptor", by.op, by.compute, by.nan, by.indices,
                    by.index_type);
    }

    void* descriptor(const Dropout& by) {
        // States that nothing is drawn from were not looked at.
        auto* const states = reinterpret_cast<void*>(by.rate > 0 ? by.states : 0);
        return make("Dropout", states ? "cudnnRestoreDropoutDescriptor" : "cudnnSetDropoutDescriptor", handle,
                    static_cast<float>(by.rate), states, static_cast<size_t>(states ? by.state_bytes : 0),
                    static_cast<unsigned long long>(by.seed));
    }
    void* descriptor(const Rnn& by) {
        return make("RNN", "cudnnSetRNNDescriptor_v8", by.algorithm, by.cell, by.bias, by.direction, by.input,
                    by.type, by.compute, by.math, by.input_size, by.hidden_size, by.projection_size,
                    by.layers, descriptor(by.dropout), by.flags);
    }
    void* descriptor(const RnnData& by) {
        std::vector<int> lengths(static_cast<size_t>(by.batch));
        for (size_t i = 0; i < lengths.size(); ++i)
            lengths[i] = static_cast<int>(length_of(by, static_cast<int64_t>(i)));
        unsigned char fill[sizeof by.fill];
        std::copy(std::begin(by.fill), std::end(by.fill), fill);
        return make("RNNData", "cudnnSetRNNDataDescriptor", by.type, by.layout, by.max_length, by.batch,
                    by.vector_size, lengths.data(), by.fills ? static_cast<void*>(fill) : nullptr);
    }
    void* descriptor(const Ctc& by) {
        return make("CTCLoss", "cudnnSetCTCLossDescriptor_v9", by.type, by.normalization, by.gradient_mode,
                    by.max_label_length);
    }
    void* descriptor(const Transformer& by) {
        int dims[kTransformed];
        for (int i = 0; i < kTransformed; ++i) dims[i] = as_int(by.dims[i]);
        return make("SpatialTransformer", "cudnnSetSpatialTransformerNdDescriptor", by.sampler, by.type,
                    by.rank, dims);
    }

    template <typename Signature, typename... Arguments>
    int invoke(const char* name, Arguments... arguments) const {
        if (status_ != ::cudnn::kSuccess) return status_;
        const auto function = reinterpret_cast<Signature*>(function_of(call_.library, name));
        return function ? function(arguments...) : static_cast<int>(::cudnn::kNotSupported);
    }

    // The algorithm, and what it works in: the program's memory where it is enough.
    template <typename Message, typename A, typename B, typename C>
    void choose(Message& m, const char* name, const A& a, const B& b, const C& c) {
        constexpr int kMost = 8;
        if (m.workSpace == 0 || static_cast<uint64_t>(m.workSpaceSizeInBytes) < call_.workspace_bytes) {
            m.workSpace = call_.workspace,
            m.workSpaceSizeInBytes = static_cast<int64_t>(call_.workspace_bytes);
        }
        Performance found[kMost];
        int count = 0;
        void *first = descriptor(a), *second = descriptor(b), *by = descriptor(m.convDesc),
             *third = descriptor(c);
        set(name, handle, first, second, by, third, kMost, &count, found);
        const auto end = found + std::clamp(status_ == ::cudnn::kSuccess ? count : 0, 0, kMost);
        const auto best = std::find_if(found, end, [&](const Performance& each) {
            return each.status == ::cudnn::kSuccess &&
                   each.memory <= static_cast<uint64_t>(m.workSpaceSizeInBytes);
        });
        if (best != end) m.algo = best->algorithm;
    }

    // The sizes that NVIDIA's library says.
    struct Sizes {
        size_t work = 0, reserve = 0;
    };
    Sizes sizes_for(const Rnn& rnn, int mode, const RnnData& x) {
        Sizes sizes;
        void *const made = descriptor(rnn), *const data = descriptor(x);
        set("cudnnGetRNNTempSpaceSizes", handle, made, mode, data, &sizes.work, &sizes.reserve);
        return sizes;
    }
    size_t states_size() {
        size_t bytes = 0;
        set("cudnnDropoutGetStatesSize", handle, &bytes);
        return bytes;
    }
    int seed(const Dropout& by) {
        auto* const states = reinterpret_cast<void*>(by.states);
        void* const made =
            make("Dropout", "cudnnSetDropoutDescriptor", handle, static_cast<float>(by.rate), states,
                 static_cast<size_t>(by.state_bytes), static_cast<unsigned long long>(by.seed));
        return made ? status_ : static_cast<int>(::cudnn::kInternalError);
    }
    int answer(uint64_t address, uint64_t first, uint64_t second) {
        const uint64_t numbers[] = {first, second};
        if (status_ == ::cudnn::kSuccess && call_.put(address, numbers, sizeof numbers) != CUDA_SUCCESS) {
            status_ = ::cudnn::kExecutionFailed;
        }
        return status_;
    }

    // What the recurrent layers work in, and whether what the program holds for NVIDIA's library is as that
    // has it: as much to keep, and weights where our library said they were.
    template <typename Message>
    void prepare(Message& m, int mode, uint64_t weights) {
        const Sizes sizes = sizes_for(m.rnnDesc, mode, m.xDesc);
        const bool keeps = m.reserveSpace && sizes.reserve <= static_cast<uint64_t>(m.reserveSpaceSize);
        if (sizes.reserve != 0 && !keeps) {
            refuse("NVIDIA's library keeps " + std::to_string(sizes.reserve) +
                   " bytes in the reserve space, which has " + std::to_string(m.reserveSpaceSize) +
                   ": ask cudnnGetRNNTempSpaceSizes, on this GPU");
        }
        make_room(sizes.work, m.workSpace, m.workSpaceSize);
        size_t bytes = 0;
        void* const rnn = descriptor(m.rnnDesc);
        set("cudnnGetRNNWeightSpaceSize", handle, rnn, &bytes);
        const uint64_t own = maths::product(weights_of(m.rnnDesc), maths::bytes_of(type_of(m.rnnDesc)));
        if (bytes != own)
            refuse("NVIDIA's library has this layer's weights in " + std::to_string(bytes) +
                   " bytes, and the program was told " + std::to_string(own) + kOtherRelease);
        // All layers but the first are alike.
        const uint64_t layers = pseudo_layers_of(m.rnnDesc),
                       first = std::min(layers, 2 * directions_of(m.rnnDesc));
        for (uint64_t layer = 0; layer < first; ++layer)
            compare_places(m.rnnDesc, rnn, layer, weights, bytes);
        compare_places(m.rnnDesc, rnn, layers - 1, weights, bytes);
    }

    // The program's indices are not asked for, and it has been told that no memory is wanted.
    void make_room_for(reduce& m) {
        size_t bytes = 0;
        void *const by = descriptor(m.reduceTensorDesc), *const a = descriptor(m.aDesc),
                    *const c = descriptor(m.cDesc);
        set("cudnnGetReductionWorkspaceSize", handle, by, a, c, &bytes);
        make_room(bytes, m.workspace, m.workspaceSizeInBytes);
    }
    void make_room_for(ctc& m) {
        size_t bytes = 0;
        void *const by = descriptor(m.ctcLossDesc), *const from = descriptor(m.probsDesc),
                    *const to = descriptor(m.gradientsDesc);
        set("cudnnGetCTCLossWorkspaceSize_v8", handle, static_cast<int>(m.algo), by, from, to, &bytes);
        make_room(bytes, m.workspace, m.workSpaceSizeInBytes);
    }

  private:
    // What the program gave to work in, where it is enough, else memory of the slice.
    void make_room(size_t bytes, uint64_t& place, int64_t& size) {
        if (bytes == 0 || (place && bytes <= static_cast<uint64_t>(size))) return;
        size = static_cast<int64_t>(bytes);
        if (status_ == ::cudnn::kSuccess && call_.make_room(bytes, place) != CUDA_SUCCESS) {
            status_ = ::cudnn::kOutOfDeviceMemory;
        }
    }
    void refuse(const std::string& why) {
        if (status_ == ::cudnn::kSuccess) status_ = refused(::cudnn::kNotSupported, why);
    }
    void compare_places(const Rnn& rnn, void* made, uint64_t layer, uint64_t weights, size_t bytes) {
        const uint64_t gates = 2 * gates_of(rnn) / maths::length(rnn.hidden_size),
                       each = maths::bytes_of(type_of(rnn));
        void *const matrix_is = make("Tensor", nullptr), *const bias_is = make("Tensor", nullptr);
        for (uint64_t gate = 0; gate < gates && status_ == ::cudnn::kSuccess; ++gate) {
            void *matrix = nullptr, *bias = nullptr;
            set("cudnnGetRNNWeightParams", handle, made, static_cast<int>(layer), bytes,
                reinterpret_cast<const void*>(weights), static_cast<int>(gate), matrix_is, &matrix, bias_is,
                &bias);
            const WeightPlace place = weight_place(rnn, layer, gate);
            const bool alike =
                reinterpret_cast<uint64_t>(matrix) == weights + place.matrix * each &&
                reinterpret_cast<uint64_t>(bias) == (place.has_bias ? weights + place.bias * each : 0);
            if (!alike)
                refuse(std::string("NVIDIA's library has weights elsewhere than the program was told") +
                       kOtherRelease);
        }
    }

    struct Made {
        std::string kind;
        void* descriptor;
    };

    template <typename... Arguments>
    int plain(const char* name, Arguments... arguments) const {
        const auto function = reinterpret_cast<int (*)(Arguments...)>(function_of(call_.library, name));
        return function ? function(arguments...) : static_cast<int>(::cudnn::kNotSupported);
    }
    template <typename... Arguments>
    void set(const char* name, Arguments... arguments) {
        if (status_ == ::cudnn::kSuccess) status_ = plain(name, arguments...);
    }
    template <typename... Values>
    void* make(const char* kind, const char* fill, Values... values) {
        void* made = nullptr;
        set(("cudnnCreate" + std::string(kind) + "Descriptor").c_str(), &made);
        if (!made) return nullptr;
        made_.push_back({kind, made});
        if (fill) set(fill, made, values...);
        return made;
    }
    // A number that is cut would be another tensor than the one that was looked at.
    int as_int(int64_t number) {
        if (number > INT32_MAX)
            refuse("a dimension or stride of " + std::to_string(number) + ", and NVIDIA's library takes " +
                   std::to_string(INT32_MAX) + " at most: split the tensor");
        return static_cast<int>(number);
    }

    const CudnnCall& call_;
    std::vector<Made> made_;
    int status_;
};

}  // namespace
}  // namespace worker

namespace maths::cudnn {

static int invoke_function(uint16_t function, const void* arguments, worker::Calling& call) {
    switch (function) {
#include "cudnn_nvidia.inc"
        default:
            return ::cudnn::kNotSupported;
    }
}

static maths::Scalar one(maths::Type type) {
    maths::Scalar scalar{};
    const double in_double = 1;
    const float in_single = 1;
    std::memcpy(scalar.bytes, type == maths::kF64 ? static_cast<const void*>(&in_double) : &in_single,
                maths::bytes_of(type));
    return scalar;
}

// The forms of batch normalisation that may do more beside it want memory of the program's for that, as much
// as NVIDIA's library says on that GPU. Without more they are the older forms, which want none.
static int normalize_older(const normalize_training_ex& m, worker::Calling& call) {
    normalize_training older{
        m.mode,     m.alpha,          m.beta, m.xDesc,  m.x,           m.yDesc,           m.y,
        m.bnDesc,   m.scale,          m.bias, m.factor, m.runningMean, m.runningVariance, m.epsilon,
        m.saveMean, m.saveInvVariance};
    if (m.ops != 0) return worker::refused(::cudnn::kNotSupported, worker::kNormalizedAlone);
    return invoke_function(k_cudnnBatchNormalizationForwardTraining, &older, call);
}
static int normalize_older(const normalize_back_ex& m, worker::Calling& call) {
    normalize_back older{m.mode,  m.alphaData, m.betaData, m.alphaParam, m.betaParam, m.xDesc,
                         m.x,     m.dyDesc,    m.dy,       m.dxDesc,     m.dx,        m.bnDesc,
                         m.scale, m.dScale,    m.dBias,    m.epsilon,    m.savedMean, m.savedInvVariance};
    if (m.ops != 0) return worker::refused(::cudnn::kNotSupported, worker::kNormalizedAlone);
    return invoke_function(k_cudnnBatchNormalizationBackward, &older, call);
}

// NVIDIA's library has no activation beside a convolution but the rectifier; others are done by themselves.
// Where nothing is added it wants a place all the same.
static int convolve_and_activate_later(convolve_and_activate& m, worker::Calling& call) {
    constexpr int kForPlainResults = 1;  // the algorithm that it does them with
    if (maths::is_zero(m.alpha2, scale_of(m.yDesc))) m.zDesc = m.yDesc, m.z = m.y;
    const int32_t mode = m.activationDesc.mode;
    // What lies between the two has the result's type: a sum below what half precision holds is -infinity
    // there, of which this activation makes no number.
    if (mode == kSwish && m.yDesc.type == kHalf) {
        return worker::refused(
            ::cudnn::kNotSupported,
            "swish behind a convolution in half precision could make NaN of a large negative sum: "
            "call cudnnActivationForward behind it, or compute in bfloat16");
    }
    if (mode == kRelu) return invoke_function(k_cudnnConvolutionBiasActivationForward, &m, call);
    activate after{m.activationDesc, one(scale_of(m.yDesc)), m.yDesc, m.y, {}, m.yDesc, m.y};
    m.algo = kForPlainResults;
    m.activationDesc = {kIdentity, 0, 0, 1};
    const int status = invoke_function(k_cudnnConvolutionBiasActivationForward, &m, call);
    return status != ::cudnn::kSuccess || mode == kIdentity
               ? status
               : invoke_function(k_cudnnActivationForward, &after, call);
}

static int invoke_prepared(uint16_t function, void* arguments, worker::Calling& call) {
    constexpr const char* kForward = "cudnnGetConvolutionForwardAlgorithm_v7";
    constexpr int kTrains = 1;
    switch (function) {
        case k_cudnnConvolutionForward: {
            auto& m = *static_cast<convolve*>(arguments);
            call.choose(m, kForward, m.xDesc, m.wDesc, m.yDesc);
            break;
        }
        case k_cudnnConvolutionBiasActivationForward: {
            auto& m = *static_cast<convolve_and_activate*>(arguments);
            call.choose(m, kForward, m.xDesc, m.wDesc, m.yDesc);
            return convolve_and_activate_later(m, call);
        }
        case k_cudnnConvolutionBackwardData: {
            auto& m = *static_cast<convolve_back_data*>(arguments);
            call.choose(m, "cudnnGetConvolutionBackwardDataAlgorithm_v7", m.wDesc, m.dyDesc, m.dxDesc);
            break;
        }
        case k_cudnnConvolutionBackwardFilter: {
            auto& m = *static_cast<convolve_back_filter*>(arguments);
            call.choose(m, "cudnnGetConvolutionBackwardFilterAlgorithm_v7", m.xDesc, m.dyDesc, m.dwDesc);
            break;
        }
        case k_cudnnDropoutGetStatesSize: {
            const size_t bytes = call.states_size();
            return call.answer(static_cast<const dropout_room*>(arguments)->answer, bytes, 0);
        }
        case k_cudnnSetDropoutDescriptor:
            return call.seed(static_cast<const seed*>(arguments)->dropoutDesc);
        case k_cudnnGetRNNTempSpaceSizes: {
            const auto& m = *static_cast<const recur_room*>(arguments);
            const auto sizes = call.sizes_for(m.rnnDesc, static_cast<int>(m.fwdMode), m.xDesc);
            return call.answer(m.answer, sizes.work, sizes.reserve);
        }
        case k_cudnnRNNForward: {
            auto& m = *static_cast<recur*>(arguments);
            call.prepare(m, static_cast<int>(m.fwdMode), m.weightSpace);
            break;
        }
        case k_cudnnRNNBackwardData_v8: {
            auto& m = *static_cast<recur_back_data*>(arguments);
            call.prepare(m, kTrains, m.weightSpace);
            break;
        }
        case k_cudnnRNNBackwardWeights_v8: {
            auto& m = *static_cast<recur_back_weights*>(arguments);
            call.prepare(m, kTrains, m.dweightSpace);
            break;
        }
        case k_cudnnReduceTensor:
            call.make_room_for(*static_cast<reduce*>(arguments));
            break;
        case k_cudnnCTCLoss_v8:
            call.make_room_for(*static_cast<ctc*>(arguments));
            break;
        case k_cudnnBatchNormalizationForwardTrainingEx:
            return normalize_older(*static_cast<const normalize_training_ex*>(arguments), call);
        case k_cudnnBatchNormalizationBackwardEx:
            return normalize_older(*static_cast<const normalize_back_ex*>(arguments), call);
        default:
            break;
    }
    return invoke_function(function, arguments, call);
}

}  // namespace maths::cudnn

namespace worker {

CUresult invoke_cudnn(uint16_t function, void* arguments, const CudnnCall& call) {
    Calling calling(call);
    return ::cudnn::result_of(maths::cudnn::invoke_prepared(function, arguments, calling));
}

}  // namespace worker
