// Entry points: links. The inputs gather here and are linked when the program says that they are all.
#include <atomic>
#include <memory>
#include <mutex>

#include "cuda/handle_table.h"
#include "cuda/jit_options.h"
#include "library.h"
#include "platform.h"
#include "wire/protocol.h"

using namespace front;

namespace {

constexpr size_t kMostInputs = 256, kMostName = 1024;

struct Link {
    explicit Link(const JitOptions& options) : options(options) {}
    const JitOptions options;

    std::mutex mutex;  // of what follows
    std::vector<LinkInput> inputs;
    size_t bytes = 0;
    bool complete = false;
    std::string image;  // the program's, until the link is destroyed

    bool of_ended_life = false;  // written while no call is under way
};
using LinkRef = std::shared_ptr<Link>;

cuda::HandleTable<CUlinkState, LinkRef>& links() {
    static auto* all = new cuda::HandleTable<CUlinkState, LinkRef>;
    return *all;
}

// A number that is given out once, and was never an address.
CUlinkState new_handle() {
    static std::atomic<uint64_t> next{0x0000'a000'0000'0000};
    return reinterpret_cast<CUlinkState>(next.fetch_add(16));
}

LinkRef find(CUlinkState state) {
    LinkRef link;
    require(links().find(state, link) && !link->of_ended_life, CUDA_ERROR_INVALID_HANDLE);
    return link;
}

void check_type(CUjitInputType type) {
    require(type >= CU_JIT_INPUT_CUBIN && type < CU_JIT_NUM_INPUT_TYPES);
    if (type != CU_JIT_INPUT_NVVM) return;
    gk_unsupported("linking LTO IR");
    refuse(CUDA_ERROR_NOT_SUPPORTED);
}

// The options of one input are about compiling it: numbers, of which those of the whole link count.
void check_options(unsigned count, const CUjit_option* options, void** values) {
    require(count == 0 || options != nullptr);
    for (unsigned i = 0; i < count; ++i) {
        const auto what = cuda::what_is(options[i]);
        require(what != cuda::JitOption::log && what != cuda::JitOption::time);
        require(options[i] != CU_JIT_TARGET && options[i] != CU_JIT_TARGET_FROM_CUCONTEXT);
    }
    JitOptions(count, options, values);  // which throws
}

void add(Link& link, CUjitInputType type, const Image& image) {
    const std::lock_guard lock(link.mutex);
    require(!link.complete && link.inputs.size() < kMostInputs);
    require(*image.bytes > 0 && *image.bytes <= wire::kMaxImage);
    const std::string name = image.name ? std::string(image.name).substr(0, kMostName) : "";
    std::string taken = platform::take_input(type, image, link.options);
    require(taken.size() <= platform::most_link_bytes() - link.bytes, CUDA_ERROR_OUT_OF_MEMORY);
    link.bytes += taken.size();
    link.inputs.push_back({type, name, std::move(taken)});
}

}  // namespace

void front::forget_links() {
    links().each([](const LinkRef& link) {
        link->of_ended_life = true;
        link->inputs.clear();
    });
}

extern "C" {

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options, void** optionValues,
                         CUlinkState* stateOut) {
    return call([&] {
        platform::require_working_context();
        require(stateOut != nullptr);
        auto link = std::make_shared<Link>(JitOptions(numOptions, options, optionValues));
        const CUlinkState handle = new_handle();
        links().add(handle, std::move(link));
        *stateOut = handle;
    });
}
CUresult cuLinkCreate(unsigned int numOptions, CUjit_option* options, void** optionValues,
                      CUlinkState* stateOut) {
    return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                          unsigned int numOptions, CUjit_option* options, void** optionValues) {
    return call([&] {
        const auto link = find(state);
        require(data != nullptr);
        check_type(type);
        check_options(numOptions, options, optionValues);
        add(*link, type, {data, size, name});
    });
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                       unsigned int numOptions, CUjit_option* options, void** optionValues) {
    return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned int numOptions,
                          CUjit_option* options, void** optionValues) {
    return call([&] {
        const auto link = find(state);
        check_type(type);
        check_options(numOptions, options, optionValues);
        const std::string bytes = read_image_file(path);
        add(*link, type, {bytes.data(), bytes.size(), file_name(path)});
    });
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned int numOptions,
                       CUjit_option* options, void** optionValues) {
    return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}

CUresult cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) {
    return permitted_call([&] {
        const auto link = find(state);
        require(cubinOut != nullptr);
        const std::lock_guard lock(link->mutex);
        if (!link->complete) {
            require(!link->inputs.empty());
            const auto began = std::chrono::steady_clock::now();
            link->image = platform::link(link->inputs, link->options);
            link->options.tell_time(std::chrono::steady_clock::now() - began);
            link->complete = true;
            link->inputs.clear();
        }
        *cubinOut = link->image.data();
        if (sizeOut) *sizeOut = link->image.size();
    });
}

CUresult cuLinkDestroy(CUlinkState state) {
    return call([&] {
        LinkRef link;
        require(links().take(state, link), CUDA_ERROR_INVALID_HANDLE);
    });
}
}
