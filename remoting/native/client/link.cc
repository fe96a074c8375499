// What the front wants of the client for links: the inputs go to the worker as images do, and one request
// links them.
#include "blake2b.h"
#include "call.h"
#include "front/library.h"
#include "front/platform.h"
#include "jit.h"
#include "library.h"

namespace client {
namespace {

wire::Writer message_of(Call& call, std::span<const front::LinkInput> inputs,
                        const front::JitOptions& options) {
    wire::Writer message;
    wire::LinkHead head{};
    head.input_count = static_cast<uint32_t>(inputs.size());
    head.option_count = static_cast<uint32_t>(options.numbers.size());
    head.info_log_bytes = room_of(options.info);
    head.error_log_bytes = room_of(options.error);
    message.put(head);
    for (const auto& option : to_wire(options)) message.put(option);
    for (const front::LinkInput& input : inputs) {
        const auto bytes = std::as_bytes(std::span(input.bytes));
        const wire::Digest digest = wire::blake2b(bytes.data(), bytes.size());
        front::check(upload_image(call, digest, bytes));
        message.put(wire::LinkInput{digest, bytes.size(), static_cast<uint32_t>(input.type),
                                    static_cast<uint32_t>(input.name.size())});
        message.put_text(input.name);
    }
    return message;
}

}  // namespace
}  // namespace client

namespace front::platform {

using namespace client;

size_t most_link_bytes() {
    return wire::kMaxImage;
}

// The worker reads it, when all are there.
std::string take_input(CUjitInputType, const Image& image, const JitOptions&) {
    return {static_cast<const char*>(image.data), *image.bytes};
}

std::string link(std::span<const LinkInput> inputs, const JitOptions& options) {
    Call call;
    check(call.begin_without_context());
    const wire::Writer message = message_of(call, inputs, options);
    const iovec part{const_cast<std::byte*>(message.bytes().data()), message.size()};
    std::span<const std::byte> payload;
    const CUresult status = call.ask_parts(wire::kOpLink, 0, &part, 1, payload);
    if (payload.empty()) check(status ? status : CUDA_ERROR_UNKNOWN);
    wire::Reader reply(payload);
    wire::LinkReply answer{};
    std::string_view image;
    require(reply.take(answer) && tell_logs(options, reply, answer.info_log_bytes, answer.error_log_bytes),
            CUDA_ERROR_UNKNOWN);
    check(status);
    require(reply.take_text(answer.image_bytes, image), CUDA_ERROR_UNKNOWN);
    return std::string(image);
}

}  // namespace front::platform
