#include "link.h"

#include "front/platform.h"
#include "module.h"
#include "session.h"

namespace softgpu::driver {
namespace {

// What `read` gives. Why it refuses an image goes to the program's error log, or else, as a line, to the
// person: who takes the log may know what to do, as our libcudart does, which then links the image anew.
template <class Read>
std::vector<NamedText> read_logged(const front::JitOptions& options, Read&& read) {
    try {
        return read();
    } catch (const RefusedImage& refused) {
        if (options.error.room > 0) {
            options.error.tell(refused.why);
        } else {
            current_session()->tell(kGkTextFault, refused.why);
        }
        throw;
    }
}

// A line for each kernel that does not run though the program is loaded; empty for nearly all programs.
std::string refusals_of(const Program& program) {
    std::string lines;
    for (const RefusedKernel& kernel : program.refused()) lines += refusal_of(kernel) + "\n";
    return lines;
}

std::shared_ptr<const Program> link_logged(std::vector<NamedText>& texts, const front::JitOptions& options) {
    limit_registers(texts, options.number(CU_JIT_MAX_REGISTERS).value_or(0));
    std::string error;
    try {
        auto program = link_program(texts, &error);
        options.error.tell("");
        options.info.tell(refusals_of(*program));
        return program;
    } catch (const Failure&) {
        options.error.tell(error);
        throw;
    }
}

std::vector<NamedText> texts_of(CUjitInputType type, const front::Image& image) {
    const bool holds_fatbins = type == CU_JIT_INPUT_OBJECT || type == CU_JIT_INPUT_LIBRARY;
    if (holds_fatbins) return texts_of_object(image.data, *image.bytes);
    return read_image(image.data, image.bytes, image.name);  // of cubins our own container only
}

}  // namespace

std::shared_ptr<const Program> link_image(const front::Image& image, const front::JitOptions& options) {
    auto texts = read_logged(options, [&] { return read_image(image.data, image.bytes, image.name); });
    return link_logged(texts, options);
}

}  // namespace softgpu::driver

// What the front wants of this driver for links. Their "cubin" is the link container of image.h, checked by
// linking it for good; each input is kept as one.
namespace front::platform {

using namespace softgpu;
using namespace softgpu::driver;

size_t most_link_bytes() {
    return Limits::text_bytes;
}

std::string take_input(CUjitInputType type, const Image& image, const JitOptions& options) {
    return make_container(read_logged(options, [&] { return texts_of(type, image); }));
}

std::string link(std::span<const LinkInput> inputs, const JitOptions& options) {
    std::vector<NamedText> texts;
    for (const LinkInput& input : inputs) {
        if (input.bytes.empty()) continue;  // an object without a kernel
        for (auto& text : read_image(input.bytes.data(), input.bytes.size()))
            texts.push_back(std::move(text));
    }
    require(!texts.empty());
    link_logged(texts, options);
    std::string container = make_container(texts);
    container.push_back('\0');  // for those who take it as text
    return container;
}

}  // namespace front::platform
