// Frames that are well formed as far as a length and a number go, and lie in what they say: made from a
// fuzzer's bytes, for every opcode.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "blake2b.h"
#include "graph_wire.h"
#include "handlers.h"
#include "hostile_values.h"
#include "lane.h"
#include "libraries/cudnn/rnn_rules.h"
#include "libraries/cufft/messages.h"
#include "libraries/curand/messages.h"
#include "libraries/cusparse/rules.h"
#include "libraries/messages.h"

namespace hostile {

class Frames final : public Values {
  public:
    // `memory`: an address of the lease, of at least a page.
    // `order`: posted calls that were made before.
    // `programs`: images that a load may name, and a link use.
    Frames(fuzzing::FuzzedData& data, uint64_t memory, uint64_t order,
           std::span<const std::string_view> programs)
        : Values(data, memory), programs_(programs), order_(order) {}

    // One frame, with its header.
    std::vector<std::byte> next();

  private:
    uint16_t opcode();
    void launch(wire::Writer& to);
    void options(wire::Writer& to, uint32_t count);
    void library_call(wire::Writer& to);
    void library_call_alone(wire::Writer& to);
    void numbers(wire::Writer& to);
    void transform(wire::Writer& to);
    void descriptor(wire::Writer& to, char kind);
    void sparse(wire::Writer& to, char kind);
    void load(wire::Writer& to);
    void upload(wire::Writer& to);
    void link(wire::Writer& to);
    void name(wire::Writer& to, uint32_t bytes);
    void work(wire::Writer& to, wire::StepKind kind);
    void description(wire::Writer& to, uint32_t& before);
    void payload(wire::Writer& to, uint16_t opcode);
    bool graph_payload(wire::Writer& to, uint16_t opcode);
    bool memory_payload(wire::Writer& to, uint16_t opcode);
    void texture(wire::Writer& to);
    void fields(wire::Writer& to, std::string_view what);
    static bool posted(uint16_t opcode);

    const std::span<const std::string_view> programs_;
    uint32_t described_[3] = {};     // steps of each graph
    maths::cudnn::Tensor tensor_{};  // the last of a call of cuDNN
    bool steps_ = false;             // such a call is of steps of sequences
    uint64_t order_;
};

inline std::vector<std::byte> Frames::next() {
    wire::Writer body;
    const uint16_t code = opcode();
    payload(body, code);
    // Now and then cut short, or longer than it should be.
    if (data_.in_range<int>(0, 31) == 0) body.put(data_.any<uint64_t>());
    size_t bytes = body.size();
    if (data_.in_range<int>(0, 31) == 0) bytes = data_.in_range<size_t>(0, bytes);
    wire::FrameHeader header{static_cast<uint32_t>(bytes), code, 0, data_.in_range<uint8_t>(0, 3), order_};
    if (posted(code)) header.order = ++order_;
    wire::Writer frame;
    frame.put(header);
    frame.put_bytes(body.bytes().data(), bytes);
    return {frame.bytes().begin(), frame.bytes().end()};
}

// What the messages of generated calls consist of, a letter a field (codegen/calls.py).
inline constexpr std::string_view kMessageFields[] = {
#include "message_fields.inc"
};

// All that the worker accepts.
inline std::vector<uint16_t> opcodes_by_hand() {
    std::vector<uint16_t> found;
    for (uint16_t opcode = 1; opcode < wire::kFirstGenerated; ++opcode)
        if (worker::find_handler(opcode) || worker::Lane::sees_to(opcode)) found.push_back(opcode);
    return found;
}

inline uint16_t Frames::opcode() {
    static const std::vector<uint16_t> by_hand = opcodes_by_hand();
    if (data_.in_range<int>(0, 2) != 0) return by_hand[data_.in_range<size_t>(0, by_hand.size() - 1)];
    return data_.in_range<uint16_t>(wire::kFirstGenerated, wire::kEndOfOpcodes - 1);
}

// What is asked carries the number of the last posted call, and takes none.
inline bool Frames::posted(uint16_t opcode) {
    const worker::Handler* handler = worker::find_handler(opcode);
    return handler && handler->how == worker::How::post;
}

inline void Frames::launch(wire::Writer& to) {
    wire::LaunchHead head{};
    head.library = data_.coin() ? wire::make_handle(wire::HandleKind::library, 1, 1) : value();
    head.stream = data_.coin() ? 0 : value();
    const auto side = [&] { return data_.in_range<int>(0, 15) ? data_.in_range<uint32_t>(1, 4) : count(); };
    head.kernel = data_.in_range<uint32_t>(0, 4);
    for (uint32_t& length : head.grid) length = side();
    for (uint32_t& length : head.block) length = side();
    head.shared_bytes = data_.coin() ? 0 : count() * 64;
    head.attribute_count = data_.coin() ? 0 : count();
    // What the kernels of the fuzzer's program have: 12, 8 and none.
    const size_t params = data_.in_range<size_t>(0, 2);
    const auto bytes = static_cast<uint32_t>(params == 2 ? 12 : params * 8);
    head.param_bytes = data_.in_range<int>(0, 15) ? bytes : count();
    to.put(head);
    for (uint32_t i = 0; i < head.attribute_count && i < 40; ++i) {
        wire::LaunchAttribute attribute{count(), 0, {}};
        const uint64_t first = value();
        std::memcpy(attribute.value, &first, sizeof first);
        to.put(attribute);
    }
    if (params > 0) to.put(data_.in_range<int>(0, 7) ? address() : value());
    if (params > 1) to.put(count());
}

inline void Frames::library_call(wire::Writer& to) {
    to.put(data_.coin() ? 0 : value());
    library_call_alone(to);
}

// Sizes that go together now and then, and memory that is there.
inline void Frames::library_call_alone(wire::Writer& to) {
    constexpr int64_t kSizes[] = {0, 1, 1, 2, 4, 4, 4, 4};
    // In single and double precision: 0, 1, -1, infinity, no number.
    constexpr uint64_t kScalars[] = {0,          0,          0x3f800000,         0xbf800000,
                                     0x7f800000, 0x7fc00000, 0x3ff0000000000000, 0x7ff0000000000000};
    GkLibraryCall head{};
    head.library = data_.in_range<uint16_t>(0, data_.in_range<int>(0, 31) ? kGkLibraries - 1 : kGkLibraries);
    const maths::Library* const library = maths::library_of(head.library);
    head.function = data_.in_range<uint16_t>(0, library ? library->functions : UINT16_MAX);
    head.wide = data_.in_range<int>(0, 7) == 0;
    head.scalars_on_device = data_.in_range<int>(0, 3) == 0;
    to.put(head);
    if (head.library == kGkCufft && data_.coin()) return transform(to);
    if (head.library == kGkCurand && data_.coin()) return numbers(to);
    const char* fields = library ? library->fields_of(head.function) : nullptr;
    const auto scalar = [&] { return data_.in_range<int>(0, 7) ? data_.one_of(kScalars) : value(); };
    const std::string_view sent = fields ? fields : "";
    tensor_ = {};
    steps_ = head.library == kGkCudnn && sent.find('K') != sent.npos;  // of sequences: three dimensions
    for (const char field : sent) {
        const bool is_wild = data_.in_range<int>(0, 31) == 0;
        if (field == 's') {
            to.put(head.scalars_on_device && !is_wild ? address() : scalar());
            to.put(scalar());
        } else if (std::isupper(static_cast<unsigned char>(field))) {
            head.library == kGkCusparse ? sparse(to, field) : descriptor(to, field);
        } else if (is_wild) {
            to.put(value());
        } else if (field == 'a') {
            to.put(address());
        } else if (field == 't') {
            to.put(data_.in_range<int>(0, 3) ? uint64_t{0} : data_.in_range<uint64_t>(0, 16));
        } else if (field == 'c') {
            to.put(data_.in_range<int>(0, 3) ? uint64_t{68} : data_.in_range<uint64_t>(64, 77));
        } else if (field == 'o') {
            to.put(data_.in_range<uint64_t>(0, data_.coin() ? 0 : 2));
        } else {
            to.put(static_cast<uint64_t>(data_.one_of(kSizes)));
        }
    }
}

// They go together now and then.
inline void Frames::numbers(wire::Writer& to) {
    using namespace maths::curand;
    constexpr Kind kKinds[] = {kXorwow, kMrg32k3a, kPhilox, kMt19937, kSobol32, kSobol64};
    constexpr uint64_t kFar[] = {0, 1, 7, 4096, 81920, uint64_t{1} << 63, UINT64_MAX};
    GenerateTwister sent{};
    Generate& call = sent.call;
    call.output = address();
    call.count = data_.in_range<int64_t>(0, 64) * 2;
    call.result = data_.in_range<int64_t>(kBits, data_.in_range<int>(0, 31) ? kPoisson : kResults);
    call.first = data_.in_range<int>(0, 7) ? 3.5 : -1;
    call.second = data_.in_range<int>(0, 7) ? 1 : HUGE_VAL;
    call.number = data_.in_range<uint64_t>(0, 3);
    call.offsets = data_.in_range<uint64_t>(0, 3);
    call.settings.kind = data_.one_of(kKinds);
    call.settings.ordering = is_quasi(call.settings.kind) ? kQuasi : data_.in_range<int64_t>(kBest, kDynamic);
    call.settings.seed = data_.one_of(kFar);
    call.settings.offset = data_.one_of(kFar);
    call.settings.dimensions = is_quasi(call.settings.kind) ? data_.in_range<int64_t>(1, 4) : 1;
    call.position = {data_.one_of(kFar), data_.coin() ? 0 : data_.one_of(kFar),
                     data_.in_range<uint64_t>(0, 5), data_.coin() ? 0 : data_.in_range<uint64_t>(0, 4)};
    sent.twister.used = data_.in_range<uint64_t>(0, kTwisterWords + (data_.in_range<int>(0, 7) ? 0 : 1));
    const bool is_twister = call.settings.kind == kMt19937;
    to.put_bytes(&sent, is_twister ? sizeof sent : sizeof call);
}

// One that goes together but for what a draw changes.
inline void Frames::transform(wire::Writer& to) {
    constexpr int64_t kTypes[] = {maths::kF32, maths::kC32, maths::kC32,
                                  maths::kC64, maths::kF16, maths::cufft::kC16};
    const auto size = [&] { return data_.in_range<int64_t>(1, 5); };
    maths::cufft::Transform sent{};
    sent.input = address();
    sent.output = data_.coin() ? sent.input : address();
    sent.direction = data_.coin() ? maths::cufft::kForward : maths::cufft::kInverse;
    sent.number = data_.in_range<uint64_t>(0, 3);
    sent.plan.rank = data_.in_range<int64_t>(1, 3);
    for (int64_t i = 0; i < 3; ++i) sent.plan.n[i] = i < sent.plan.rank ? size() : 1;
    sent.plan.batch = size();
    sent.plan.advanced = data_.coin();
    for (maths::cufft::Layout* layout : {&sent.plan.input, &sent.plan.output}) {
        *layout = {{size(), size() + 4, size() + 4}, size(), data_.in_range<int64_t>(0, 99)};
    }
    sent.plan.execution_type = maths::kC32;
    sent.plan.input_type = data_.one_of(kTypes);
    sent.plan.output_type = data_.one_of(kTypes);
    if (data_.in_range<int>(0, 3) == 0) {
        uint64_t words[sizeof sent / sizeof(uint64_t)];
        std::memcpy(words, &sent, sizeof sent);
        words[data_.in_range<size_t>(0, std::size(words) - 1)] = value();
        std::memcpy(&sent, words, sizeof sent);
    }
    to.put(sent);
}

// Descriptors of cuDNN: small tensors without gaps, and windows that fit them now and then.
inline void Frames::descriptor(wire::Writer& to, char kind) {
    using namespace maths::cudnn;
    constexpr int32_t kTypes[] = {kFloat, kFloat, kFloat, kDouble, kHalf, kBfloat16, kInt8};
    constexpr int64_t kDims[] = {1, 1, 1, 2, 2, 4};
    const auto small = [&] {
        return data_.in_range<int>(0, 31) ? data_.in_range<int32_t>(0, 2) : static_cast<int32_t>(value());
    };
    const auto fill = [&](auto& list) {
        for (auto& each : list) each = small();
    };
    const int32_t type = data_.one_of(kTypes), rank = data_.in_range<int>(0, 15)
                                                          ? (steps_ ? 3 : 4)
                                                          : static_cast<int32_t>(int64_t{small()} * 3);
    if (kind == 'T') {
        // Many functions want tensors that are alike.
        Tensor tensor = tensor_.rank && data_.coin() ? tensor_ : Tensor{type, rank, {}, {}};
        if (!tensor.dims[0]) {
            for (int64_t& each : tensor.dims) each = data_.one_of(kDims);
            const bool channels_last = data_.coin();
            if (rank >= 1 && rank <= kMostDims) pack(tensor, channels_last);
        }
        tensor_ = tensor;
        if (data_.in_range<int>(0, 15) == 0)
            tensor.strides[data_.in_range<int>(0, 3)] = static_cast<int64_t>(value());
        if (data_.in_range<int>(0, 15) == 0)
            tensor.dims[data_.in_range<int>(0, 3)] = static_cast<int64_t>(value());
        to.put(tensor);
    } else if (kind == 'F') {
        Filter filter{type, data_.coin(), rank, 0, {}};
        for (int64_t& each : filter.dims) each = data_.one_of(kDims);
        if (data_.in_range<int>(0, 15) == 0)
            filter.dims[data_.in_range<int>(0, 3)] = static_cast<int64_t>(value());
        to.put(filter);
    } else if (kind == 'C') {
        Convolution by{rank - 2, 1, 0, 1, 0, 0, {}, {}, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}};
        fill(data_.coin() ? by.pads : data_.coin() ? by.strides : by.dilations);
        if (data_.coin()) by.groups = small();
        to.put(by);
    } else if (kind == 'P') {
        Pooling by{data_.in_range<int32_t>(0, 3),
                   data_.coin(),
                   rank - 2,
                   0,
                   {2, 2, 2, 2, 2, 2},
                   {},
                   {1, 1, 1, 1, 1, 1}};
        fill(data_.coin() ? by.pads : data_.coin() ? by.window : by.strides);
        to.put(by);
    } else if (kind == 'A') {
        to.put(Activation{data_.in_range<int32_t>(0, 7), 0, 1.0, 1.0});
    } else if (kind == 'L') {
        to.put(Lrn{static_cast<uint32_t>(small()), 0, 1.0, 1.0, 1.0});
    } else if (kind == 'O') {
        to.put(OpTensor{data_.in_range<int32_t>(-1, 6), 0, 0, 0});
    } else if (kind == 'D') {
        to.put(Dropout{data_.coin() ? 0 : 0.5, address(), data_.in_range<uint64_t>(0, 64), 1});
    } else if (kind == 'N') {
        Rnn rnn{0,
                data_.in_range<int32_t>(0, 3),
                data_.in_range<int32_t>(0, 3),
                data_.coin(),
                0,
                type,
                0,
                0,
                1,
                1,
                1,
                data_.in_range<int32_t>(1, 2),
                1,
                0,
                {}};
        if (data_.in_range<int>(0, 7) == 0)
            (data_.coin() ? rnn.hidden_size : rnn.layers) = static_cast<int32_t>(value());
        to.put(rnn);
    } else if (kind == 'S') {
        RnnData rows{type,
                     data_.in_range<int32_t>(0, 2),
                     2,
                     data_.in_range<int32_t>(1, 2),
                     data_.in_range<int32_t>(1, 2),
                     data_.coin(),
                     data_.coin(),
                     0,
                     {},
                     {2, 1}};
        if (data_.in_range<int>(0, 7) == 0) rows.lengths[data_.coin()] = static_cast<int32_t>(value());
        if (data_.in_range<int>(0, 15) == 0) rows.max_length = static_cast<int32_t>(value());
        if (data_.in_range<int>(0, 15) == 0) rows.batch = static_cast<int32_t>(value());
        to.put(rows);
    } else if (kind == 'K') {
        const int32_t most = data_.in_range<int>(0, 3) ? 2 : static_cast<int32_t>(value());
        to.put(Ctc{0, data_.coin(), data_.coin(), most});
    } else if (kind == 'G') {
        Transformer by{0, type, 4, 0, {}};
        for (int64_t& each : by.dims)
            each = data_.in_range<int>(0, 31) ? data_.one_of(kDims) : static_cast<int64_t>(value());
        to.put(by);
    } else {
        to.put(Reduction{data_.in_range<int32_t>(-1, 9), 0, 0, data_.in_range<int32_t>(0, 1), 0, 0});
    }
}

// Square ones of one size, which go together but for what a draw changes.
inline void Frames::sparse(wire::Writer& to, char kind) {
    using namespace maths::cusparse;
    constexpr int32_t kFormats[] = {kCsr, kCsr, kCsc, kCoo, kBsr, kNoFormat};
    const auto size = [&] { return data_.in_range<int>(0, 31) ? int64_t{4} : static_cast<int64_t>(value()); };
    const int32_t type = data_.in_range<int>(0, 15) ? 0 : data_.in_range<int32_t>(-1, 25);
    const int32_t index = data_.in_range<int32_t>(2, 3), base = data_.coin();
    if (kind == 'S') {
        const int32_t order = data_.in_range<int32_t>(1, 2), fill = data_.coin(), diag = data_.coin();
        Sparse sent{data_.one_of(kFormats),
                    type,
                    index,
                    index,
                    base,
                    order,
                    fill,
                    diag,
                    size(),
                    size(),
                    size(),
                    1,
                    1,
                    1,
                    0,
                    0,
                    0,
                    address(),
                    address(),
                    address()};
        if (data_.in_range<int>(0, 15) == 0)
            sent.batch = size(), sent.offset_stride = size(), sent.value_stride = size();
        if (data_.in_range<int>(0, 15) == 0) sent.block_rows = size(), sent.block_columns = size();
        to.put(sent);
    } else if (kind == 'D') {
        const int32_t order = data_.in_range<int32_t>(1, 2);
        const int64_t batch = data_.in_range<int>(0, 15) ? 1 : size();
        to.put(Dense{type, order, size(), size(), size(), batch, size(), address()});
    } else if (kind == 'V') {
        to.put(Vector{type, 0, size(), address()});
    } else if (kind == 'E') {
        to.put(Entries{type, index, base, 0, size(), size(), address(), address()});
    } else {
        to.put(MatDescr{0, data_.coin(), data_.coin(), base});
    }
}

inline void Frames::options(wire::Writer& to, uint32_t count) {
    for (uint32_t i = 0; i < count && i < 80; ++i)
        to.put(wire::JitOption{data_.in_range<uint32_t>(0, 40), 0, value()});
}

inline void Frames::name(wire::Writer& to, uint32_t bytes) {
    static constexpr std::string_view kNames[] = {"counter", "table",     "store",
                                                  "",        "counter\0", "no such name"};
    const std::string_view text = data_.one_of(kNames);
    to.put_text(text.substr(0, bytes));
}

inline void Frames::load(wire::Writer& to) {
    const std::string_view image = programs_[data_.in_range<size_t>(0, programs_.size() - 1)];
    wire::LoadHead head{};
    head.library = handle(wire::HandleKind::library);
    head.digest = wire::blake2b(image.data(), image.size());
    head.image_bytes = data_.in_range<int>(0, 15) ? image.size() : value();
    head.inline_image = data_.coin();
    head.option_count = data_.coin() ? 0 : count();
    head.info_log_bytes = data_.coin() ? 0 : count();
    head.error_log_bytes = data_.coin() ? 0 : count() * 64;
    to.put(head);
    options(to, head.option_count);
    if (head.inline_image) to.put_text(image);
}

// The image as it is, or its digest with other bytes.
inline void Frames::upload(wire::Writer& to) {
    const std::string_view image = programs_[data_.in_range<size_t>(0, programs_.size() - 1)];
    const bool whole = data_.coin();
    const uint64_t offset = whole ? 0 : data_.in_range<uint64_t>(0, image.size());
    to.put(wire::UploadHead{wire::blake2b(image.data(), image.size()), offset,
                            data_.in_range<int>(0, 7) ? image.size() : value()});
    to.put_text(image.substr(offset, whole ? image.size() : data_.in_range<size_t>(0, 64)));
}

inline void Frames::link(wire::Writer& to) {
    const auto inputs = data_.in_range<uint32_t>(0, 3);
    const uint32_t more = data_.in_range<int>(0, 3) ? 0 : count();
    to.put(wire::LinkHead{data_.in_range<int>(0, 15) ? inputs : count(), more, data_.coin() ? 0 : count(),
                          data_.coin() ? 0 : count() * 64});
    options(to, more);
    for (uint32_t i = 0; i < inputs; ++i) {
        const std::string_view image = programs_[data_.in_range<size_t>(0, programs_.size() - 1)];
        const auto bytes = data_.in_range<uint32_t>(0, 5);
        to.put(wire::LinkInput{wire::blake2b(image.data(), image.size()),
                               data_.in_range<int>(0, 7) ? image.size() : value(), count(), bytes});
        to.put_text(std::string_view("input").substr(0, bytes));
    }
}

inline void Frames::work(wire::Writer& to, wire::StepKind kind) {
    switch (kind) {
        case wire::StepKind::kernel:
            return launch(to);
        case wire::StepKind::copy: {
            const wire::Box one = box();
            wire::Box other = one;
            if (data_.coin()) other.address = data_.coin() ? value() : count();
            return to.put(wire::GraphCopy{one, data_.coin() ? other : box(), data_.in_range<uint32_t>(0, 2),
                                          data_.in_range<uint32_t>(0, 2)});
        }
        case wire::StepKind::fill: {
            const wire::Box range = box();
            return to.put(
                wire::GraphFill{range.address, range.pitch, range.width, range.height, count(), count()});
        }
        case wire::StepKind::host:
            return to.put(value());
        case wire::StepKind::wait_event:
        case wire::StepKind::record_event:
            return to.put(handle(wire::HandleKind::event));
        default:
            return;
    }
}

// More steps of a graph that has `before`.
inline void Frames::description(wire::Writer& to, uint32_t& before) {
    const auto end = before + data_.in_range<uint32_t>(0, 6);
    for (uint32_t& i = before; i < end; ++i) {
        const auto kind = static_cast<wire::StepKind>(
            data_.in_range<int>(0, 31) ? data_.in_range<uint32_t>(0, 6) : count());
        wire::Writer inside;
        work(inside, kind);
        const uint32_t after = std::min(data_.in_range<uint32_t>(0, 2), i);
        to.put(wire::GraphStep{static_cast<uint32_t>(kind), data_.in_range<int>(0, 31) ? after : count(),
                               static_cast<uint32_t>(inside.size()), 0});
        for (uint32_t k = 0; k < after; ++k) to.put(i - 1 - k);
        to.put_bytes(inside.bytes().data(), inside.size());
    }
}

inline void Frames::texture(wire::Writer& to) {
    wire::TextureHead head{};
    head.is_surface = data_.in_range<int>(0, 3) == 0;
    head.type = data_.in_range<int>(0, 15) ? data_.in_range<uint32_t>(0, 3) : count();
    head.source = head.type == 0   ? handle(wire::HandleKind::array)
                  : head.type == 1 ? handle(wire::HandleKind::mipmapped_array)
                                   : address();
    head.format = data_.coin() ? 32 : count();
    head.channels = data_.coin() ? 1 : count();
    head.width = data_.coin() ? 16 : value();
    head.height = data_.coin() ? 1 : value();
    head.pitch = data_.coin() ? 512 : value();
    head.filter = data_.in_range<uint32_t>(0, 2);
    head.flags = data_.coin() ? 2 : count();
    head.address_modes[0] = data_.in_range<uint32_t>(0, 4);
    head.has_view = data_.in_range<int>(0, 3) == 0;
    head.view_format = count();
    head.view_width = data_.coin() ? 4 * count() : value();
    head.view_height = data_.coin() ? 4 * count() : value();
    head.last_level = count();
    head.last_layer = count();
    to.put(head);
}

inline bool Frames::memory_payload(wire::Writer& to, uint16_t code) {
    const auto stream = [&] { return data_.coin() ? 0 : value(); };
    switch (code) {
        case wire::kOpCopyIn: {
            const auto bytes = data_.in_range<uint64_t>(0, 2048);
            to.put(wire::CopyHead{address(), bytes, stream()});
            to.put_bytes(std::vector<std::byte>(bytes).data(), bytes);
            return true;
        }
        case wire::kOpCopyOut:
            to.put(wire::CopyHead{address(), data_.coin() ? 4096 : value(), stream()});
            return true;
        case wire::kOpCopyBoxIn: {
            const wire::Box whole = box();
            to.put(wire::BoxHead{whole, stream()});
            const uint64_t bytes = std::min<uint64_t>(wire::volume(whole), 4096);
            to.put_bytes(std::vector<std::byte>(bytes).data(), bytes);
            return true;
        }
        case wire::kOpCopyBoxOut:
            to.put(wire::BoxHead{box(), stream()});
            return true;
        case wire::kOpCopyBack:
            to.put(wire::CopyBack{{box(), stream()}, data_.in_range<uint64_t>(0, 4)});
            return true;
        case wire::kOpCopyBox:
            to.put(wire::BoxCopy{{box(), stream()}, box()});
            return true;
        case wire::kOpMemoryLook: {
            const auto bytes = data_.in_range<uint32_t>(0, 2048), give = data_.in_range<uint32_t>(0, 1);
            to.put(wire::MemoryLook{address(), data_.in_range<int>(0, 15) ? bytes : count(), give});
            if (give) to.put_bytes(std::vector<std::byte>(bytes).data(), bytes);
            return true;
        }
        case wire::kOpStreamMemory: {
            const auto ops = data_.in_range<uint32_t>(0, 3);
            to.put(wire::StreamMemoryHead{stream(), data_.in_range<int>(0, 15) ? ops : count(), 0});
            for (uint32_t i = 0; i < ops; ++i)
                to.put(wire::StreamMemoryOp{data_.in_range<uint32_t>(0, 7), data_.in_range<uint32_t>(0, 4),
                                            address(), value()});
            return true;
        }
        case wire::kOpWaitInStream:
            to.put(stream());
            return true;
        case wire::kOpAllocate:
            to.put(wire::AllocateHead{data_.in_range<uint32_t>(0, 5), count(), value(), value(), stream(),
                                      data_.coin() ? 0 : value()});
            return true;
        case wire::kOpMakeArray: {
            const auto levels = data_.coin() ? 0 : data_.in_range<uint32_t>(0, 4);
            const auto side = [&] { return data_.in_range<int>(0, 7) ? count() * 4 : value(); };
            static constexpr uint32_t kFormats[] = {1, 2, 3, 8, 9, 10, 16, 32};
            const auto kind = levels ? wire::HandleKind::mipmapped_array : wire::HandleKind::array;
            to.put(wire::ArrayHead{handle(kind), side(), side(), data_.coin() ? 0 : side(),
                                   data_.in_range<int>(0, 7) ? data_.one_of(kFormats) : count(),
                                   data_.in_range<int>(0, 7) ? 1u << data_.in_range<int>(0, 2) : count(),
                                   data_.coin() ? 0 : data_.in_range<uint32_t>(0, 16),
                                   data_.in_range<int>(0, 15) ? levels : count()});
            for (uint32_t i = 0; i < levels; ++i) to.put(handle(wire::HandleKind::array));
            return true;
        }
        case wire::kOpMakeTexture:
            texture(to);
            return true;
        case wire::kOpEndTexture:
            to.put(wire::TextureEnd{data_.coin() ? count() : value(), data_.in_range<uint32_t>(0, 1), 0});
            return true;
        case wire::kOpEndArray:
            to.put(handle(data_.coin() ? wire::HandleKind::array : wire::HandleKind::mipmapped_array));
            return true;
        case wire::kOpCreatePool:
            to.put(wire::PoolHead{handle(wire::HandleKind::pool), data_.coin() ? 0 : value(),
                                  data_.in_range<int>(0, 7) ? 0 : count(), 0});
            return true;
        case wire::kOpCreateMemory:
            to.put(wire::CreateMemoryHead{handle(wire::HandleKind::physical),
                                          data_.coin() ? kGranule : value()});
            return true;
        case wire::kOpSetPoolAccess:
        case wire::kOpSetAccess:
            to.put(wire::AccessHead{data_.coin() ? handle(wire::HandleKind::pool) : address(),
                                    data_.coin() ? kGranule : value(),
                                    data_.in_range<int>(0, 7) ? 0 : count(), data_.in_range<uint32_t>(0, 4),
                                    data_.coin() ? 0 : value()});
            return true;
        default:
            return false;
    }
}

inline bool Frames::graph_payload(wire::Writer& to, uint16_t code) {
    const auto number = data_.in_range<uint32_t>(0, 2);
    const uint64_t graph = wire::make_handle(wire::HandleKind::exec, 1, number);
    uint32_t& steps = described_[number];
    const auto image_bytes = [&] { return data_.coin() ? 4096 : value(); };
    switch (code) {
        case wire::kOpGraphPart:
            to.put(graph);
            description(to, steps);
            return true;
        case wire::kOpGraphMake:
            to.put(wire::GraphHead{graph, data_.coin() ? 0 : value(), image_bytes(),
                                   data_.in_range<int>(0, 15) ? steps : count(), 0});
            steps = 0;
            return true;
        case wire::kOpGraphSet: {
            const auto kind = data_.in_range<uint32_t>(0, 7);
            to.put(wire::GraphChange{graph, count(), kind});
            work(to, static_cast<wire::StepKind>(kind));
            return true;
        }
        case wire::kOpGraphEnable:
            to.put(wire::GraphChange{graph, count(), data_.in_range<uint32_t>(0, 2)});
            return true;
        case wire::kOpGraphInput:
            to.put(wire::GraphInput{graph, image_bytes(), data_.coin() ? 0 : value()});
            words(to, 8);
            return true;
        case wire::kOpGraphRun:
            to.put(wire::GraphRun{graph, data_.coin() ? 0 : value(), image_bytes()});
            return true;
        case wire::kOpGraphOutput:
        case wire::kOpGraphLook:
            to.put(wire::GraphOutput{graph, data_.coin() ? 0 : value(), count(),
                                     data_.in_range<uint32_t>(0, 2)});
            return true;
        case wire::kOpGraphEnd:
            to.put(graph);
            return true;
        default:
            return false;
    }
}

inline void Frames::fields(wire::Writer& to, std::string_view what) {
    for (const char field : what) {
        switch (field) {
            case 's':
                to.put(data_.coin() ? 0 : handle(wire::HandleKind::stream));
                break;
            case 'e':
                to.put(handle(wire::HandleKind::event));
                break;
            case 'p':
                to.put(data_.coin() ? 0 : handle(wire::HandleKind::pool));
                break;
            case 'd':
                to.put(data_.in_range<int>(0, 7) ? address() : value());
                break;
            case '1':
                to.put(data_.any<uint8_t>());
                break;
            case '2':
                to.put(data_.any<uint16_t>());
                break;
            case '4':
                to.put(count());
                break;
            default:
                to.put(value());
        }
    }
}

inline void Frames::payload(wire::Writer& to, uint16_t code) {
    const auto library = [&] {
        return data_.coin() ? wire::make_handle(wire::HandleKind::library, 1, 1) : value();
    };
    if (memory_payload(to, code) || graph_payload(to, code)) return;
    switch (code) {
        case wire::kOpLaunch:
            return launch(to);
        case wire::kOpLibraryCall:
            return library_call(to);
        case wire::kOpLibraryLook:
            to.put(wire::LibraryLook{data_.in_range<uint32_t>(0, kGkLibraries), count()});
            return data_.coin() ? library_call_alone(to) : void();
        case wire::kOpLoadLibrary:
            return load(to);
        case wire::kOpUploadImage:
            return upload(to);
        case wire::kOpLink:
            return link(to);
        case wire::kOpGetGlobal: {
            const uint32_t bytes = count();
            to.put(wire::GlobalHead{library(), bytes, 0});
            return name(to, bytes);
        }
        case wire::kOpUnloadLibrary:
            return to.put(library());
        case wire::kOpSetAttribute:
            return to.put(wire::FunctionAttribute{library(), count(), data_.in_range<uint32_t>(0, 20),
                                                  static_cast<int32_t>(count()), 0});
        case wire::kOpEndContext:
        case wire::kOpResetLibraries:
            for (int i = data_.in_range<int>(0, 4); i > 0; --i) to.put(library());
            return;
        case wire::kOpHostCall:
            return to.put(wire::HostCall{data_.coin() ? 0 : value(), value(), count(), 0});
        case wire::kOpNextHostCall:
        case wire::kOpNextCopyBack:
            return to.put(data_.coin() ? 0 : value());
        case wire::kOpContextEvent:
            return to.put(wire::ContextEvent{handle(wire::HandleKind::event), count(), 0});
        case wire::kOpTakeNotices:
        case wire::kOpMemoryInfo:
        case wire::kOpWaitForDevice:
            return;
        case wire::kOpSetChecks:
            return to.put(wire::ChecksMessage{count(), 0});
        case wire::kOpInterrupt:
            return to.put(wire::InterruptMessage{0});
        case wire::kOpMapHost:
            return to.put(wire::MapHost{address(), count()});
        default:
            if (code >= wire::kFirstGenerated && data_.in_range<int>(0, 15))
                return fields(to, kMessageFields[code - wire::kFirstGenerated]);
            words(to, 8);
    }
}

}  // namespace hostile
