// cuLink*: the inputs gather here, and one request at cuLinkComplete links them on the worker.
#include "link.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "blake2b.h"
#include "call.h"
#include "image_file.h"
#include "jit.h"
#include "library.h"

namespace client {
namespace {

struct Input {
    CUjitInputType type;
    std::string name;
    std::string bytes;
};

struct Link {
    JitOptions options;
    std::vector<Input> inputs;
    bool of_ended_life = false;
    std::string image;  // the result, with a NUL behind it for those who take it as text
};

struct Links {
    std::mutex mutex;
    std::map<uint64_t, std::shared_ptr<Link>> live;
    uint64_t last = 0;
};

Links& links() {
    static auto* all = new Links;
    return *all;
}

std::shared_ptr<Link> find(CUlinkState state) {
    const std::lock_guard lock(links().mutex);
    auto found = links().live.find(reinterpret_cast<uint64_t>(state));
    return found == links().live.end() || found->second->of_ended_life ? nullptr : found->second;
}

constexpr size_t kMaxInputs = 256;

CUresult add_input(CUlinkState state, CUjitInputType type, std::string bytes, const char* name) {
    const auto link = find(state);
    if (!link) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes.empty() || bytes.size() > wire::kMaxImage || link->inputs.size() == kMaxInputs) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    link->inputs.push_back({type, name ? std::string(name).substr(0, 1024) : "", std::move(bytes)});
    return CUDA_SUCCESS;
}

CUresult complete(Call& call, Link& link) {
    wire::Writer message;
    wire::LinkHead head{};
    head.input_count = static_cast<uint32_t>(link.inputs.size());
    head.option_count = static_cast<uint32_t>(link.options.numbers().size());
    head.info_log_bytes = link.options.info_log_bytes();
    head.error_log_bytes = link.options.error_log_bytes();
    message.put(head);
    for (const auto& option : link.options.numbers()) message.put(option);
    for (const Input& input : link.inputs) {
        const auto bytes = std::as_bytes(std::span(input.bytes));
        const wire::Digest digest = wire::blake2b(bytes.data(), bytes.size());
        if (CUresult error = upload_image(call, digest, bytes)) return error;
        message.put(wire::LinkInput{digest, bytes.size(), static_cast<uint32_t>(input.type),
                                    static_cast<uint32_t>(input.name.size())});
        message.put_text(input.name);
    }
    const iovec part{const_cast<std::byte*>(message.bytes().data()), message.size()};
    std::span<const std::byte> payload;
    const CUresult status = call.ask_parts(wire::kOpLink, 0, &part, 1, payload);
    if (payload.empty()) return status ? status : CUDA_ERROR_UNKNOWN;
    wire::Reader reply(payload);
    wire::LinkReply answer{};
    std::string_view image;
    if (!reply.take(answer) ||
        !link.options.take_logs(reply, answer.info_log_bytes, answer.error_log_bytes)) {
        return CUDA_ERROR_UNKNOWN;
    }
    if (status) return status;
    if (!reply.take_text(answer.image_bytes, image)) return CUDA_ERROR_UNKNOWN;
    link.image = image;
    return CUDA_SUCCESS;
}

}  // namespace

void forget_links() {
    const std::lock_guard lock(links().mutex);
    for (const auto& [state, link] : links().live) {
        link->of_ended_life = true;
        link->inputs.clear();
    }
}

}  // namespace client

using namespace client;

extern "C" {

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options, void** optionValues,
                         CUlinkState* stateOut) {
    Call call;
    if (CUresult error = call.begin_anew()) return error;
    if (!stateOut) return CUDA_ERROR_INVALID_VALUE;
    auto link = std::make_shared<Link>();
    if (CUresult error = link->options.add(numOptions, options, optionValues)) return error;
    const std::lock_guard lock(links().mutex);
    links().live[++links().last] = std::move(link);
    *stateOut = reinterpret_cast<CUlinkState>(links().last);
    return CUDA_SUCCESS;
}
CUresult cuLinkCreate(unsigned int numOptions, CUjit_option* options, void** optionValues,
                      CUlinkState* stateOut) {
    return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

// Options of a single input only repeat those of the link, as far as they are numbers.
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                          unsigned int numOptions, CUjit_option* options, void** optionValues) {
    if (!data || size > wire::kMaxImage) return CUDA_ERROR_INVALID_VALUE;
    return add_input(state, type, std::string(static_cast<const char*>(data), size), name);
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                       unsigned int numOptions, CUjit_option* options, void** optionValues) {
    return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned int numOptions,
                          CUjit_option* options, void** optionValues) {
    std::string bytes;
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    if (!read_image_file(path, bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
    return add_input(state, type, std::move(bytes), path);
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned int numOptions,
                       CUjit_option* options, void** optionValues) {
    return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}

CUresult cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    const auto link = find(state);
    if (!link) return CUDA_ERROR_INVALID_HANDLE;
    if (!cubinOut || !sizeOut) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = complete(call, *link)) return error;
    *cubinOut = link->image.data();
    *sizeOut = link->image.size();
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
    const std::lock_guard lock(links().mutex);
    return links().live.erase(reinterpret_cast<uint64_t>(state)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
}
