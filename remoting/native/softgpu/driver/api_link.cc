// Entry points: cuLink*. Its "cubin" is the link container of image.h, checked by linking it for good.
#include "driver.h"
#include "image_file.h"
#include "jit_options.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

class LinkState : public Object {
  public:
    static constexpr Kind kKind = Kind::link;
    LinkState(std::shared_ptr<Context> context, JitLog log)
        : Object(kKind), context(std::move(context)), log(log) {}
    const std::shared_ptr<Context> context;

    std::mutex mutex;  // of all below
    JitLog log;
    std::vector<NamedText> inputs;
    std::string container;  // what cuLinkComplete hands out; lives until the state is destroyed
    bool complete = false;
};

// Texts of one input; throws Failure.
std::vector<NamedText> texts_of(CUjitInputType type, const void* data, size_t bytes, const char* name) {
    switch (type) {
        case CU_JIT_INPUT_PTX:
        case CU_JIT_INPUT_FATBINARY:
            return read_image(data, bytes, name);
        case CU_JIT_INPUT_CUBIN:
            // Only our own container; a real cubin is refused with a line on the log.
            return read_image(data, bytes, name);
        case CU_JIT_INPUT_OBJECT:
        case CU_JIT_INPUT_LIBRARY:
            return texts_of_object(data, bytes);
        default:
            refuse(CUDA_ERROR_INVALID_VALUE);
    }
}

void add(Driver& driver, CUlinkState state, const std::function<std::vector<NamedText>()>& read) {
    const auto link = driver.handles.get<LinkState>(state);
    const std::lock_guard lock(link->mutex);
    require(!link->complete);
    auto texts = read_logged(read, link->log);
    size_t bytes = 0;
    for (const auto& input : link->inputs) bytes += input.text.size();
    for (auto& text : texts) {
        bytes += text.text.size();
        require(bytes <= Limits::text_bytes, CUDA_ERROR_OUT_OF_MEMORY);
        link->inputs.push_back(std::move(text));
    }
}

}  // namespace

extern "C" {

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options, void** optionValues,
                         CUlinkState* stateOut) {
    return context_call([&](Context& context) {
        require(stateOut != nullptr);
        const auto state = std::make_shared<LinkState>(context.shared_from_this(),
                                                       JitLog(numOptions, options, optionValues));
        context.driver.handles.add(state);
        context.own(state->handle);
        *stateOut = as_handle<CUlinkState>(state->handle);
    });
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                          unsigned int numOptions, CUjit_option* options, void** optionValues) {
    return driver_call([&](Driver& driver) {
        require(data != nullptr && size > 0);
        add(driver, state, [&] { return texts_of(type, data, size, name); });
    });
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned int numOptions,
                          CUjit_option* options, void** optionValues) {
    return driver_call([&](Driver& driver) {
        const std::string content = read_file(path);
        add(driver, state, [&] { return texts_of(type, content.data(), content.size(), path); });
    });
}

CUresult cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) {
    return driver_call([&](Driver& driver) {
        require(cubinOut != nullptr);
        const auto link = driver.handles.get<LinkState>(state);
        const std::lock_guard lock(link->mutex);
        if (!link->complete) {
            require(!link->inputs.empty());
            link_logged(link->inputs, link->log);
            link->container = make_container(link->inputs);
            link->complete = true;
        }
        *cubinOut = link->container.data();
        if (sizeOut) *sizeOut = link->container.size() + 1;  // with its NUL
    });
}

CUresult cuLinkDestroy(CUlinkState state) {
    return driver_call([&](Driver& driver) {
        const auto link = driver.handles.get<LinkState>(state);
        require(driver.handles.remove(link->handle), CUDA_ERROR_INVALID_HANDLE);
        link->context->disown(link->handle);
    });
}
}
