// The backend API: descriptors with attributes, of which programs build graphs of operations. A graph of one convolution is
// done, as the older function of the same meaning; others are refused when they are finished, so that who built one can
// try another.
//
// Numbers of types, descriptors and attributes are those of the API's public documentation.
#include <algorithm>
#include <cstring>
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
    kEngine = 2,
    kEngineConfig = 3,
    kHeuristics = 4,
    kPlan = 5,
    kForward = 10,
    kBackToFilter = 11,
    kBackToData = 12,
    kGraph = 15,
    kVariantPack = 16,
    kTensor = 17,
    kKinds = 51,
};

enum Name : int {
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

// A tensor that lies in memory, in elements one by one.
bool read(const Part& part, Tensor& to) {
    if (!part || part->kind != kTensor || part->value<int64_t>(kTensorVectors, 1) != 1) return false;
    if (part->value<char>(kTensorIsVirtual, 0) || part->value<char>(kTensorIsValue, 0)) return false;
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
    const auto id = [&](int name) { return operation.part(name)->value<int64_t>(kTensorId, -1); };
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

int finish_graph(Backend& graph) {
    const Attribute* operations = graph.find(kGraphOperations);
    if (!operations || operations->parts.empty()) return kBadParameter;
    if (operations->parts.size() == 1) graph.prepared = prepare(*operations->parts[0]);
    return graph.prepared ? kSuccess : library_unsupported("a graph of cuDNN that is no single convolution");
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
