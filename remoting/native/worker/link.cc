// cuLink* in one request: all inputs are images that were uploaded before.
#include <algorithm>

#include "handlers.h"
#include "image.h"
#include "jit.h"
#include "load_cost.h"

namespace worker {
namespace {

struct Input {
    ImageCache::Image image;
    CUjitInputType type;
    std::string name;
};

bool take_inputs(Context& context, wire::Reader& payload, uint32_t count, std::vector<Input>& inputs,
                 bool& missing) {
    constexpr uint32_t kMaxInputs = 256;
    if (count > kMaxInputs) return false;
    for (uint32_t i = 0; i < count; ++i) {
        wire::LinkInput head;
        std::string_view name;
        if (!payload.take(head) || head.name_bytes > wire::kMaxNameBytes ||
            !payload.take_text(head.name_bytes, name)) {
            return false;
        }
        auto image = context.worker().images.find(head.digest);
        missing = missing || !image || image->size() != head.bytes;
        inputs.push_back({std::move(image), static_cast<CUjitInputType>(head.type), std::string(name)});
    }
    return payload.finished();
}

bool begins_with(const std::string& image, std::string_view magic) {
    return std::string_view(image).starts_with(magic);
}

// Whether the driver may see it: it trusts what a fatbin says of its size, and follows a wrapper's address.
// Objects of `nvcc -rdc` are ELF files, and its static libraries (cudadevrt too) archives of those.
bool safe(const Input& input) {
    constexpr std::string_view kElf = "\177ELF", kArchive = "!<arch>\n";
    const std::string& image = *input.image;
    switch (input.type) {
        case CU_JIT_INPUT_LIBRARY:
            if (begins_with(image, kArchive)) return true;
            [[fallthrough]];
        case CU_JIT_INPUT_OBJECT:
            if (begins_with(image, kElf)) return true;
            [[fallthrough]];
        case CU_JIT_INPUT_CUBIN:
        case CU_JIT_INPUT_PTX:
        case CU_JIT_INPUT_FATBINARY:
            // With the NUL that stands behind every image.
            return wire::image_bytes(std::as_bytes(std::span(image.data(), image.size() + 1))).has_value() &&
                   !unpacks_to_too_much(std::as_bytes(std::span(image)));
        default:
            return false;
    }
}

// What the linker takes of this machine: for each input as much as for loading it, and the result thrice.
uint64_t link_cost(const std::vector<Input>& inputs, bool software) {
    uint64_t cost = 0;
    for (const Input& input : inputs) {
        const uint64_t one = load_cost(std::as_bytes(std::span(*input.image)), software);
        cost += std::min(one, UINT64_MAX / 512);
        cost += 3 * input.image->size();
    }
    return cost;
}

CUresult link(Context& context, const std::vector<Input>& inputs, JitOptions& options, std::string& linked) {
    const Driver& driver = context.driver();
    if (!std::all_of(inputs.begin(), inputs.end(), safe)) return CUDA_ERROR_INVALID_IMAGE;
    HostMemory& memory = context.worker().host_memory;
    Session& session = context.session();
    const auto goes_on = [&] { return !session.ended(); };
    uint64_t unpacking = 0;
    for (const Input& input : inputs)
        unpacking = std::max(unpacking, unpacking_cost(std::as_bytes(std::span(*input.image))));
    uint64_t cost;
    {
        const HostMemory::Room room(memory, unpacking, goes_on);
        if (!room)
            return session.refuse(room.refusal("linking these inputs", "Link smaller or fewer inputs"));
        cost = link_cost(inputs, driver.software);
    }
    const HostMemory::Room room(memory, cost, goes_on);
    if (!room) return session.refuse(room.refusal("linking these inputs", "Link smaller or fewer inputs"));
    CUlinkState state;
    if (CUresult error =
            invoke(driver.cuLinkCreate_v2, options.count(), options.names(), options.values(), &state)) {
        return error;
    }
    CUresult result = CUDA_SUCCESS;
    bool any = false;
    for (const Input& input : inputs) {
        // A driver would follow its pointer.
        if (wire::is_fatbin_wrapper(input.image->c_str())) result = CUDA_ERROR_INVALID_IMAGE;
        if (result != CUDA_SUCCESS) break;
        result =
            invoke(driver.cuLinkAddData_v2, state, input.type,
                   const_cast<void*>(static_cast<const void*>(input.image->data())), input.image->size(),
                   input.name.c_str(), 0u, static_cast<CUjit_option*>(nullptr), static_cast<void**>(nullptr));
        // The client's call was answered before this. A fatbin that has nothing for this GPU, as the device
        // runtime's often is, adds nothing: what needs it will be missed.
        if (result == CUDA_ERROR_NO_BINARY_FOR_GPU && input.type == CU_JIT_INPUT_FATBINARY) {
            result = CUDA_SUCCESS;
            continue;
        }
        if (result != CUDA_SUCCESS) break;
        any = true;
    }
    if (result == CUDA_SUCCESS && !any) result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    void* image = nullptr;
    size_t bytes = 0;
    if (result == CUDA_SUCCESS) result = invoke(driver.cuLinkComplete, state, &image, &bytes);
    if (result == CUDA_SUCCESS && bytes > wire::kMaxReply / 2) result = CUDA_ERROR_INVALID_IMAGE;
    if (result == CUDA_SUCCESS) linked.assign(static_cast<const char*>(image), bytes);
    invoke(driver.cuLinkDestroy, state);
    return result;
}

}  // namespace

CUresult handle_link(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    wire::LinkHead head;
    JitOptions options;
    std::vector<Input> inputs;
    bool missing = false;
    if (!payload.take(head) ||
        !options.take(payload, head.option_count, head.info_log_bytes, head.error_log_bytes) ||
        !take_inputs(context, payload, head.input_count, inputs, missing)) {
        return kMalformed;
    }
    std::string linked;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (options.refused()) {
        result = context.session().refuse_option(*options.refused());
    } else if (!missing) {
        result = link(context, inputs, options, linked);
    }
    reply.put(wire::LinkReply{linked.size(), static_cast<uint32_t>(options.info_log().size()),
                              static_cast<uint32_t>(options.error_log().size())});
    reply.put_text(options.info_log());
    reply.put_text(options.error_log());
    reply.put_text(linked);
    return result;
}

}  // namespace worker
