// The backend API: descriptors with attributes, of which programs build graphs of operations. A graph of one convolution is
// done, as the older function of the same meaning, and one that goes forward with what is added to it and an activation;
// others are refused when they are finished, so that who built one can try another.
//
// Numbers of types, descriptors and attributes are those of the API's public documentation.
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cudnn_messages.h"
#include "own_call.h"
#include "roles.h"
#include "status.h"

using namespace cudnn;
using namespace maths;
using namespace maths::cudnn;

namespace {

enum ValueType : int {
    kHandleValue = 0,
    kBoolean = 2,
    kLong = 3,
    kSingle = 4,
    kDoubleValue = 5,
    kPointer = 6,
    kDescriptor = 15,
    kCharacter = 24,
    kFraction = 26,
    kValueTypes = 34,
};
constexpr size_t size_of(int type) {
    if (type == kHandleValue || type == kLong || type == kDoubleValue || type == kPointer || type == kDescriptor) return 8;
    return type == kBoolean || type == kCharacter ? 1 : type == kFraction ? 16 : 4;
}

enum Kind : int {
    kPointwise = 0,
    kEngine = 2,
    kEngineConfig = 3,
    kHeuristics = 4,
    kPlan = 5,
    kForward = 10,
    kBackToFilter = 11,
    kBackToData = 12,
    kPointwiseOperation = 13,
    kGraph = 15,
    kVariantPack = 16,
    kTensor = 17,
    kKinds = 51,
};

enum Name : int {
    kPointwiseMode = 0,
    kPointwiseNan = 2,
    kLowerClip = 3,
    kUpperClip = 4,
    kLowerSlope = 5,
    kEluAlpha = 6,
    kSwishBeta = 8,
    kConvolutionCompute = 100,
    kConvolutionMode = 101,
    kDilations = 102,
    kSteps = 103,
    kPadsAfter = 104,
    kPads = 105,
    kHeuristicsGraph = 201,
    kHeuristicsResults = 202,
    kConfigEngine = 300,
    kConfigIntermediates = 301,
    kConfigKnobs = 302,
    kPlanConfig = 401,
    kPlanWorkspace = 402,
    kPointwiseBy = 750,
    kPointwiseX = 751,
    kPointwiseB = 752,
    kPointwiseY = 753,
    kPointwiseAlpha = 754,
    kPointwiseAlphaOfB = 755,
    kGraphOperations = 801,
    kGraphEngines = 802,
    kTensorType = 901,
    kTensorDims = 902,
    kTensorStrides = 903,
    kTensorVectors = 904,
    kTensorId = 906,
    kTensorIsVirtual = 907,
    kTensorIsValue = 908,
    kPackIds = 1000,
    kPackPointers = 1001,
    kEngineGraph = 1300,
    kEngineIndex = 1301,
    kEngineKnobs = 1302,
    kEngineNumerics = 1303,
    kEngineLayouts = 1304,
    kEngineBehaviour = 1305,
};

struct Backend;
using Part = std::shared_ptr<Backend>;

struct Attribute {
    int type = 0;
    int64_t count = 0;
    std::vector<std::byte> bytes;
    std::vector<Part> parts;  // of descriptors
};

// What a finished graph is sent as: a message without addresses, and which tensor's address goes where in it.
struct Prepared {
    uint16_t function;
    std::vector<std::byte> message;
    struct Place {
        int64_t id;
        size_t offset;
    };
    std::vector<Place> places;
};

// Not changed once it is finished.
struct Backend {
    int kind = -1;
    bool is_finished = false;
    std::map<int, Attribute> attributes;
    std::optional<Prepared> prepared;  // of a graph

    const Attribute* find(int name) const {
        const auto found = attributes.find(name);
        return found == attributes.end() ? nullptr : &found->second;
    }
    template <typename Value>
    std::vector<Value> values(int name) const {
        const Attribute* found = find(name);
        if (!found || size_of(found->type) != sizeof(Value)) return {};
        std::vector<Value> list(static_cast<size_t>(found->count));
        std::memcpy(list.data(), found->bytes.data(), found->bytes.size());
        return list;
    }
    template <typename Value>
    Value value(int name, Value otherwise) const {
        const std::vector<Value> list = values<Value>(name);
        return list.empty() ? otherwise : list[0];
    }
    // alpha and beta may be of either type.
    double number(int name, double otherwise) const {
        const Attribute* found = find(name);
        if (found && found->type == kSingle) return static_cast<double>(value<float>(name, 0));
        return found ? value<double>(name, otherwise) : otherwise;
    }
    Part part(int name) const {
        const Attribute* found = find(name);
        return found && !found->parts.empty() ? found->parts[0] : nullptr;
    }
    void set(int name, Part part) { attributes[name] = {kDescriptor, 1, {}, {std::move(part)}}; }
};

template <typename From, typename To, size_t kMost>
bool copy(const std::vector<From>& from, To (&to)[kMost], size_t count) {
    if (from.size() < count || count > kMost) return false;
    for (size_t i = 0; i < count; ++i) {
        if (from[i] < 0 || from[i] > INT32_MAX) return false;
        to[i] = static_cast<To>(from[i]);
    }
    return true;
}

int64_t id_of(const Part& tensor) {
    return tensor->value<int64_t>(kTensorId, -1);
}

// A tensor in elements one by one: in memory, or an inner one, which one operation gives to the next.
enum class Lies { in_memory, within };
bool read(const Part& part, Tensor& to, Lies lies = Lies::in_memory) {
    if (!part || part->kind != kTensor || part->value<int64_t>(kTensorVectors, 1) != 1) return false;
    const bool is_inner = part->value<char>(kTensorIsVirtual, 0) != 0;
    if (is_inner != (lies == Lies::within) || part->value<char>(kTensorIsValue, 0)) return false;
    const std::vector<int64_t> dims = part->values<int64_t>(kTensorDims);
    to = {part->value<int32_t>(kTensorType, -1), static_cast<int32_t>(dims.size()), {}, {}};
    return copy(dims, to.dims, dims.size()) && copy(part->values<int64_t>(kTensorStrides), to.strides, dims.size());
}

// Whether the elements lie as they would without gaps; a dimension of 1 has no step.
bool lies_as(const Tensor& tensor, const Tensor& packed) {
    for (int i = 0; i < tensor.rank; ++i) {
        if (tensor.dims[i] != 1 && tensor.strides[i] != packed.strides[i]) return false;
    }
    return true;
}

bool read(const Part& part, Filter& to) {
    Tensor tensor{};
    if (!read(part, tensor)) return false;
    to = {tensor.type, kNchw, tensor.rank, 0, {}};
    std::copy_n(tensor.dims, kMostDims, to.dims);
    if (lies_as(tensor, tensor_of(to))) return true;
    to.format = kNhwc;
    return lies_as(tensor, tensor_of(to));
}

bool read(const Part& part, const Tensor& x, const Filter& w, Convolution& to) {
    const size_t rank = static_cast<size_t>(std::max(x.rank - 2, 0));
    if (!part || w.dims[1] < 1) return false;
    to = {};
    to.rank = static_cast<int32_t>(rank);
    to.mode = part->value<int32_t>(kConvolutionMode, 1);
    to.compute = part->value<int32_t>(kConvolutionCompute, kFloat);
    to.groups = static_cast<int32_t>(x.dims[1] / w.dims[1]);
    return copy(part->values<int64_t>(kPads), to.pads, rank) &&
           copy(part->values<int64_t>(kPadsAfter), to.pads_after, rank) &&
           copy(part->values<int64_t>(kSteps), to.strides, rank) &&
           copy(part->values<int64_t>(kDilations), to.dilations, rank);
}

Scalar scalar(double value, Type type) {
    Scalar result{};
    const auto single = static_cast<float>(value);
    std::memcpy(result.bytes, type == kF64 ? static_cast<const void*>(&value) : &single, bytes_of(type));
    return result;
}

// What the three convolutions have in common: which attributes they are.
struct Names {
    int alpha, beta, by, w, x, y;
};
constexpr Names kForwardNames{700, 701, 702, 703, 704, 705}, kBackToDataNames{706, 707, 708, 709, 710, 711},
    kBackToFilterNames{712, 713, 714, 715, 716, 717};

struct Operation {
    Tensor x{}, y{};
    Filter w{};
    Convolution by{};
};

template <typename Message, typename Result>
std::optional<Prepared> prepare(uint16_t function, Message& m, const Backend& operation, const Names& names,
                                const Operation& o, const Result& result, size_t x, size_t w, size_t y) {
    m.convDesc = o.by;
    m.algo = 1;
    m.alpha = scalar(operation.number(names.alpha, 1), scale_of(result));
    m.beta = scalar(operation.number(names.beta, 0), scale_of(result));
    SizesAlone sizes(false, false);
    if (look_at(function, &m, sizeof m, sizes) != Fit::fits) return std::nullopt;
    Prepared prepared{function, std::vector<std::byte>(sizeof m), {}};
    std::memcpy(prepared.message.data(), &m, sizeof m);
    const auto id = [&](int name) { return id_of(operation.part(name)); };
    prepared.places = {{id(names.x), x}, {id(names.w), w}, {id(names.y), y}};
    return prepared;
}

// Null for what is not done.
std::optional<Prepared> prepare(const Backend& operation) {
    const Names* names = operation.kind == kForward        ? &kForwardNames
                         : operation.kind == kBackToData   ? &kBackToDataNames
                         : operation.kind == kBackToFilter ? &kBackToFilterNames
                                                           : nullptr;
    Operation o;
    if (!names || !read(operation.part(names->x), o.x) || !read(operation.part(names->y), o.y) ||
        !read(operation.part(names->w), o.w) || !read(operation.part(names->by), o.x, o.w, o.by)) {
        return std::nullopt;
    }
    if (operation.kind == kForward) {
        convolve m{};
        m.xDesc = o.x, m.wDesc = o.w, m.yDesc = o.y;
        return prepare(k_cudnnConvolutionForward, m, operation, *names, o, o.y, offsetof(convolve, x),
                       offsetof(convolve, w), offsetof(convolve, y));
    }
    if (operation.kind == kBackToData) {
        convolve_back_data m{};
        m.dxDesc = o.x, m.wDesc = o.w, m.dyDesc = o.y;
        return prepare(k_cudnnConvolutionBackwardData, m, operation, *names, o, o.x, offsetof(convolve_back_data, dx),
                       offsetof(convolve_back_data, w), offsetof(convolve_back_data, dy));
    }
    convolve_back_filter m{};
    m.xDesc = o.x, m.dwDesc = o.w, m.dyDesc = o.y;
    return prepare(k_cudnnConvolutionBackwardFilter, m, operation, *names, o, o.w, offsetof(convolve_back_filter, x),
                   offsetof(convolve_back_filter, dw), offsetof(convolve_back_filter, dy));
}

// Of the pointwise modes.
enum PointwiseMode : int {
    kAddition = 0,
    kReluForward = 100,
    kTanhForward = 101,
    kSigmoidForward = 102,
    kEluForward = 103,
    kSwishForward = 106,
};

bool read(const Backend& by, Activation& to) {
    constexpr double kNoCeiling = std::numeric_limits<float>::max();
    const double ceiling = by.number(kUpperClip, kNoCeiling);
    to = {kIdentity, by.value<int32_t>(kPointwiseNan, 0), 0, 1};
    switch (by.value<int32_t>(kPointwiseMode, -1)) {
        case kReluForward:
            to.mode = ceiling < kNoCeiling ? kClippedRelu : kRelu;
            to.coefficient = to.mode == kClippedRelu ? ceiling : 0;
            return by.number(kLowerClip, 0) == 0 && by.number(kLowerSlope, 0) == 0;
        case kTanhForward:
            to.mode = kTanh;
            return true;
        case kSigmoidForward:
            to.mode = kSigmoid;
            return true;
        case kEluForward:
            to.mode = kElu, to.coefficient = by.number(kEluAlpha, 1);
            return true;
        case kSwishForward:
            to.mode = kSwish, to.swish_beta = by.number(kSwishBeta, 1);
            return true;
        default:
            return false;
    }
}

// What an operation of a row gives on.
Part given_by(const Backend& operation) {
    return operation.part(operation.kind == kForward ? kForwardNames.y : kPointwiseY);
}

// A convolution and the pointwise operations after it, each of which takes what the one before gives; empty where the
// operations are no such row.
std::vector<Part> row_of(std::vector<Part> operations) {
    std::vector<Part> row;
    const auto move = [&](auto is_next) {
        const auto next = std::find_if(operations.begin(), operations.end(), is_next);
        if (next == operations.end()) return false;
        row.push_back(*next);
        operations.erase(next);
        return true;
    };
    if (!move([](const Part& each) { return each->kind == kForward; })) return {};
    while (!operations.empty()) {
        const Part given = given_by(*row.back());
        const auto takes = [&](const Part& each) {
            const Part taken = each->kind == kPointwiseOperation ? each->part(kPointwiseX) : nullptr;
            return given && taken && id_of(taken) == id_of(given);
        };
        if (!move(takes)) return {};
    }
    return row;
}

// y = activation(alpha1 * (x by w) + alpha2 * z + bias): z and the activation may lack.
class Fused {
  public:
    Fused() { m_.activationDesc = {kIdentity, 0, 0, 1}; }
    std::optional<Prepared> prepare(const std::vector<Part>& row) {
        if (row.size() < 2 || !begin(*row[0])) return std::nullopt;
        for (size_t i = 1; i < row.size(); ++i) {
            if (!take(*row[i], i + 1 == row.size())) return std::nullopt;
        }
        if (!bias_) return std::nullopt;
        if (!z_) m_.zDesc = m_.yDesc;
        m_.algo = 1;
        m_.alpha1 = scalar(alpha1_, scale_of(m_.yDesc)), m_.alpha2 = scalar(alpha2_, scale_of(m_.yDesc));
        SizesAlone sizes(false, false);
        constexpr uint16_t kFunction = k_cudnnConvolutionBiasActivationForward;
        if (look_at(kFunction, &m_, sizeof m_, sizes) != Fit::fits) return std::nullopt;
        Prepared prepared{kFunction, std::vector<std::byte>(sizeof m_), {}};
        std::memcpy(prepared.message.data(), &m_, sizeof m_);
        prepared.places = {{id_of(row[0]->part(kForwardNames.x)), offsetof(convolve_and_activate, x)},
                           {id_of(row[0]->part(kForwardNames.w)), offsetof(convolve_and_activate, w)},
                           {id_of(bias_), offsetof(convolve_and_activate, bias)},
                           {id_of(given_by(*row.back())), offsetof(convolve_and_activate, y)}};
        if (alpha2_ != 0) prepared.places.push_back({id_of(z_), offsetof(convolve_and_activate, z)});
        return prepared;
    }

  private:
    bool begin(const Backend& operation) {
        alpha1_ = operation.number(kForwardNames.alpha, 1);
        return operation.number(kForwardNames.beta, 0) == 0 && read(operation.part(kForwardNames.x), m_.xDesc) &&
               read(operation.part(kForwardNames.w), m_.wDesc) && gives(operation, false) &&
               read(operation.part(kForwardNames.by), m_.xDesc, m_.wDesc, m_.convDesc);
    }
    // The last one's result is y, the others' are of its shape.
    bool gives(const Backend& operation, bool is_last) {
        Tensor given{};
        if (!read(given_by(operation), given, is_last ? Lies::in_memory : Lies::within)) return false;
        const bool fits = is_real(given.type) && (operation.kind == kForward || same_shape(given, m_.yDesc));
        m_.yDesc = given;
        return fits;
    }
    // An activation is the last, the bias what is added last.
    bool take(const Backend& operation, bool is_last) {
        const Part by = operation.part(kPointwiseBy);
        if (!by || !gives(operation, is_last)) return false;
        const double first = operation.number(kPointwiseAlpha, 1), second = operation.number(kPointwiseAlphaOfB, 1);
        if (by->value<int32_t>(kPointwiseMode, -1) != kAddition) {
            return is_last && first == 1 && !operation.part(kPointwiseB) && read(*by, m_.activationDesc);
        }
        Tensor added{};
        const Part what = operation.part(kPointwiseB);
        if (!read(what, added)) return false;
        if (!bias_ && first == 1 && second == 1 && is_of_channels(added, m_.yDesc)) {
            bias_ = what, m_.biasDesc = added;
            return true;
        }
        // Of one place in all, what is added first looked like a bias.
        if (bias_ && !z_ && first == 1 && second == 1 && same_shape(m_.biasDesc, m_.yDesc) && same_shape(added, m_.yDesc)) {
            z_ = bias_, m_.zDesc = m_.biasDesc, alpha2_ = 1;
            bias_ = what, m_.biasDesc = added;
            return true;
        }
        if (bias_ || z_ || !same_shape(added, m_.yDesc)) return false;
        alpha1_ *= first, alpha2_ = second;
        z_ = what, m_.zDesc = added;
        return true;
    }

    convolve_and_activate m_{};
    Part bias_, z_;
    double alpha1_ = 1, alpha2_ = 0;
};

int finish_graph(Backend& graph) {
    const Attribute* operations = graph.find(kGraphOperations);
    if (!operations || operations->parts.empty()) return kBadParameter;
    const bool is_one = operations->parts.size() == 1;
    graph.prepared = is_one ? prepare(*operations->parts[0]) : Fused().prepare(row_of(operations->parts));
    return graph.prepared ? kSuccess : library_unsupported("a graph of cuDNN that is no convolution, nor one with a bias and an activation,");
}

// What is asked of a finished descriptor and was not set: one engine, which wants nothing.
struct Answer {
    int64_t count;
    int64_t value;
};
std::optional<Answer> answer(int name) {
    switch (name) {
        case kGraphEngines:
            return Answer{1, 1};
        case kPlanWorkspace:
            return Answer{1, 0};
        case kConfigIntermediates:
        case kConfigKnobs:
        case kEngineKnobs:
        case kEngineNumerics:
        case kEngineLayouts:
        case kEngineBehaviour:
            return Answer{0, 0};
        default:
            return std::nullopt;
    }
}

// The program gives a descriptor that it has made, which becomes `what`.
int give_part(const Backend& what, int64_t room, void* const* given) {
    if (room < 1 || !given) return kSuccess;
    const Part to = all<Backend>().find(given[0]);
    if (!to || to->kind != what.kind) return kBadParameter;
    *to = what;
    return kSuccess;
}

// The engine of a heuristic's only result.
Backend config_for(const Part& graph) {
    const auto engine = std::make_shared<Backend>();
    engine->kind = kEngine, engine->is_finished = true;
    engine->set(kEngineGraph, graph);
    engine->attributes[kEngineIndex] = {kLong, 1, std::vector<std::byte>(sizeof(int64_t)), {}};
    Backend config;
    config.kind = kEngineConfig, config.is_finished = true;
    config.set(kConfigEngine, engine);
    return config;
}

const Prepared* prepared_of(const Backend& plan) {
    const Part config = plan.part(kPlanConfig);
    const Part engine = config ? config->part(kConfigEngine) : nullptr;
    const Part graph = engine ? engine->part(kEngineGraph) : nullptr;
    return graph && graph->prepared ? &*graph->prepared : nullptr;
}

}  // namespace

CUDNN_EXPORT int cudnnBackendCreateDescriptor(int kind, void** descriptor) {
    if (!descriptor) return kNullPointer;
    if (kind < 0 || kind >= kKinds) return kNotSupported;
    *descriptor = all<Backend>().add();
    if (!*descriptor) return kOutOfMemory;
    all<Backend>().find(*descriptor)->kind = kind;
    return kSuccess;
}

CUDNN_EXPORT int cudnnBackendDestroyDescriptor(void* descriptor) {
    return !descriptor || all<Backend>().remove(descriptor) ? kSuccess : kBadParameter;
}

CUDNN_EXPORT int cudnnBackendSetAttribute(void* descriptor, int name, int type, int64_t count, const void* values) {
    constexpr int64_t kMost = 4096;
    const Part own = all<Backend>().find(descriptor);
    if (!own || own->is_finished || count < 0 || count > kMost) return kBadParameter;
    if (type < 0 || type >= kValueTypes) return kBadParameter;
    if (!values && count > 0) return kNullPointer;
    Attribute attribute{type, count, {}, {}};
    if (type == kDescriptor) {
        for (int64_t i = 0; i < count; ++i) {
            const Part part = all<Backend>().find(static_cast<void* const*>(values)[i]);
            if (!part || !part->is_finished) return kBadParameter;
            attribute.parts.push_back(part);
        }
    } else if (count > 0) {
        attribute.bytes.resize(static_cast<size_t>(count) * size_of(type));
        std::memcpy(attribute.bytes.data(), values, attribute.bytes.size());
    }
    own->attributes[name] = std::move(attribute);
    return kSuccess;
}

CUDNN_EXPORT int cudnnBackendFinalize(void* descriptor) {
    const Part own = all<Backend>().find(descriptor);
    if (!own) return kBadParameter;
    int status = kSuccess;
    if (own->kind == kGraph) status = finish_graph(*own);
    if (own->kind == kEngine && own->value<int64_t>(kEngineIndex, 0) != 0) status = kNotSupported;
    if (own->kind == kPlan && !prepared_of(*own)) status = kBadParameter;
    own->is_finished = status == kSuccess;
    return status;
}

CUDNN_EXPORT int cudnnBackendGetAttribute(void* descriptor, int name, int type, int64_t room, int64_t* count,
                                          void* values) {
    const Part own = all<Backend>().find(descriptor);
    if (!own || !own->is_finished || room < 0) return kBadParameter;
    int64_t ignored;
    int64_t& found = count ? *count : ignored;
    if (name == kHeuristicsResults && own->kind == kHeuristics) {
        found = 1;
        const Part graph = own->part(kHeuristicsGraph);
        return graph ? give_part(config_for(graph), room, static_cast<void* const*>(values)) : kBadParameter;
    }
    if (const auto told = answer(name)) {
        found = told->count;
        if (told->count && room >= 1 && values) std::memcpy(values, &told->value, sizeof told->value);
        return kSuccess;
    }
    const Attribute* attribute = own->find(name);
    if (!attribute) return kNotSupported;
    if (attribute->type != type) return kBadParameter;
    found = attribute->count;
    if (type == kDescriptor) {
        if (attribute->parts.empty()) return kSuccess;
        return give_part(*attribute->parts[0], room, static_cast<void* const*>(values));
    }
    const size_t most = static_cast<size_t>(std::min(room, attribute->count)) * size_of(type);
    if (values && most) std::memcpy(values, attribute->bytes.data(), most);
    return kSuccess;
}

CUDNN_EXPORT int cudnnBackendExecute(void* handle, void* plan, void* pack) {
    const Part what = all<Backend>().find(plan), with = all<Backend>().find(pack);
    if (!what || !with || what->kind != kPlan || with->kind != kVariantPack) return kBadParameter;
    const Prepared* const prepared = what->is_finished && with->is_finished ? prepared_of(*what) : nullptr;
    if (!prepared) return kBadParameter;
    const std::vector<int64_t> ids = with->values<int64_t>(kPackIds);
    const std::vector<uint64_t> pointers = with->values<uint64_t>(kPackPointers);
    alignas(8) std::byte message[kGkMostCallBytes];
    std::memcpy(message, prepared->message.data(), prepared->message.size());
    for (const Prepared::Place& place : prepared->places) {
        const auto at = static_cast<size_t>(std::find(ids.begin(), ids.end(), place.id) - ids.begin());
        if (at >= ids.size() || at >= pointers.size()) return kBadParameter;
        std::memcpy(message + place.offset, &pointers[at], sizeof pointers[at]);
    }
    return OwnCall(handle, prepared->function, false).send(message, prepared->message.size());
}
