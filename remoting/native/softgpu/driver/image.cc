#include "image.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "exec/check/request.h"
#include "fatbin.h"
#include "image_texts.h"
#include "session.h"

namespace softgpu::driver {
namespace {

constexpr uint32_t kElf = 0x464c457f;

[[noreturn]] void refuse_with(CUresult code, const std::string& why) {
    throw RefusedImage(code, why);
}

// `first`: an image's first bytes, with zeros after the end of a text that is shorter.
bool starts_as_text(std::span<const unsigned char> first) {
    return first[0] != 0 && std::all_of(first.begin(), first.end(), [](unsigned char c) {
               return c == '\0' || c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c < 0x7f);
           });
}

// Splits a container at its marker lines; a text without any is one input.
std::vector<NamedText> split(std::string_view text, const char* name) {
    std::vector<NamedText> inputs;
    while (text.starts_with(kLinkInput)) {
        const size_t line_end = std::min(text.find('\n'), text.size());
        std::string input_name(text.substr(kLinkInput.size(), line_end - kLinkInput.size()));
        text.remove_prefix(std::min(line_end + 1, text.size()));
        const std::string marker = "\n" + std::string(kLinkInput);
        const size_t next = text.starts_with(kLinkInput) ? 0 : text.find(marker);
        const size_t end = next == std::string_view::npos ? text.size() : next == 0 ? 0 : next + 1;
        inputs.push_back({std::move(input_name), std::string(text.substr(0, end))});
        text.remove_prefix(end);
    }
    if (inputs.empty()) inputs.push_back({name && *name ? name : "PTX", std::string(text)});
    return inputs;
}

}  // namespace

std::vector<NamedText> read_image(const void* image, std::optional<size_t> bytes, const char* name) {
    require(image != nullptr && (!bytes || *bytes > 0));
    const size_t limit = std::min(bytes.value_or(Limits::text_bytes + 1), size_t{Limits::text_bytes} + 1);
    const char* text = static_cast<const char*>(image);
    // A text may be shorter than the four bytes of a magic number, so they are read one by one.
    unsigned char first[4] = {};
    for (size_t i = 0; i < 4 && i < limit; ++i) {
        first[i] = static_cast<unsigned char>(text[i]);
        if (first[i] == 0) break;
    }
    uint32_t magic;
    std::memcpy(&magic, first, sizeof magic);
    if (magic == kElf) {
        refuse_with(
            CUDA_ERROR_NO_BINARY_FOR_GPU,
            "refused a cubin: the software GPU runs PTX only. NVRTC, nvJitLink and nvcc --cubin give PTX "
            "here if they are found by their names (libnvrtc.so.13, nvcc), not by their paths; cuLink "
            "does too" +
                std::string(cuda::kBuildWithPtx));
    }
    if (is_fatbin(magic)) return read_fatbin(image, bytes);
    if (!starts_as_text(first)) {
        refuse_with(CUDA_ERROR_INVALID_IMAGE, "refused an image that is neither PTX text nor a fatbin");
    }
    const size_t length = strnlen(text, limit);
    if (length > Limits::text_bytes) {
        refuse_with(CUDA_ERROR_INVALID_IMAGE,
                    "refused a PTX text of more than " + std::to_string(Limits::text_bytes >> 20) + " MiB");
    }
    return split({text, length}, name);
}

std::vector<NamedText> texts_of_object(const void* data, size_t bytes) {
    static constexpr unsigned char kMagic[] = {0x50, 0xed, 0x55, 0xba, 0x01, 0x00};  // and the version, 1
    std::vector<NamedText> texts;
    size_t room = Limits::text_bytes;
    const auto* at = static_cast<const std::byte*>(data);
    const auto* end = at + bytes;
    while (const void* found = memmem(at, end - at, kMagic, sizeof kMagic)) {
        const auto* fatbin = static_cast<const std::byte*>(found);
        at = fatbin + sizeof kMagic;
        auto text = find_ptx(fatbin, end - fatbin);
        if (!text) continue;
        // Before the next is unpacked: a few compressed bytes may say that they are a whole limit's worth.
        require(text->text.size() <= room, CUDA_ERROR_OUT_OF_MEMORY);
        room -= text->text.size();
        texts.push_back(std::move(*text));
    }
    return texts;
}

std::string make_container(const std::vector<NamedText>& texts) {
    std::string container;
    for (const NamedText& input : texts) {
        std::string name = input.name;
        std::replace_if(name.begin(), name.end(), [](char c) { return c == '\n' || c == '\0'; }, ' ');
        container.append(kLinkInput).append(name).append("\n").append(input.text);
        if (container.back() != '\n') container += '\n';
    }
    return container;
}

void limit_registers(std::vector<NamedText>& texts, uint32_t limit) {
    if (limit == 0 || texts.empty()) return;
    std::string& last = texts.back().text;
    last.resize(std::min(last.find('\0'), last.size()));
    last += "\n.pragma \"gpu-kernels max registers " + std::to_string(limit) + "\";\n";
}

std::shared_ptr<const Program> link_program(const std::vector<NamedText>& texts, std::string* error) {
    std::vector<PtxInput> inputs;
    for (const NamedText& input : texts) inputs.push_back({input.name, input.text});
    const check::Request request{current_session()->checks.load(std::memory_order_relaxed)};
    const check::Scope scope(request);
    LinkResult linked = Program::link(inputs);
    if (linked.program) return std::move(linked.program);
    if (error) *error = linked.error;
    current_session()->tell(kGkTextFault, "cannot load PTX: " + linked.error);
    refuse(CUDA_ERROR_INVALID_PTX);
}

}  // namespace softgpu::driver
