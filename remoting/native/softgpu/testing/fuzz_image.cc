// A fuzzer over images: any bytes as what a program hands over to be loaded or linked, through every reader
// that they meet on the way: the one that measures them, the software GPU's, and the runtime library's that
// links what a program registered. A reader may refuse; it may not read outside the image.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "cudart/fatbinary.h"
#include "cudart/log.h"
#include "driver/image.h"
#include "driver/session.h"
#include "wire/image.h"

// The readers run without a driver around them, and so without a session.
const std::shared_ptr<softgpu::driver::Session>& softgpu::driver::current_session() {
    static const auto none = std::make_shared<Session>(nullptr, nullptr);
    return none;
}

void softgpu::driver::Session::tell(GkText, std::string_view) {}

void cudart::tell_user(const std::string&) {}

// No library comes of the driver below, so none has variables to show.
CUresult cudart::show_managed(const Driver&, FatBinary&, CUlibrary) {
    return CUDA_SUCCESS;
}

using namespace softgpu;
using namespace softgpu::driver;

namespace {

using Texts = std::vector<NamedText>;

void must(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "fuzz_image: %s\n", what);
    std::abort();
}

// A block of its own, of exactly this size, so that a reader that leaves it is found out.
class Block {
  public:
    explicit Block(std::span<const std::byte> bytes)
        : bytes_(std::malloc(bytes.size())), size_(bytes.size()) {
        if (!bytes.empty()) std::memcpy(bytes_, bytes.data(), bytes.size());
    }
    ~Block() { std::free(bytes_); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    const void* data() const { return bytes_; }
    size_t size() const { return size_; }
    std::span<const std::byte> span() const { return {static_cast<const std::byte*>(bytes_), size_}; }

  private:
    void* bytes_;
    size_t size_;
};

std::optional<Texts> texts_in(const void* image, std::optional<size_t> bytes) {
    try {
        return read_image(image, bytes, "fuzz");
    } catch (const Failure&) {
        return std::nullopt;
    }
}

// What cuLinkComplete would hand out loads again as the same inputs.
void keep_through_a_container(const Texts& texts) {
    const std::string container = make_container(texts);
    const auto again = texts_in(container.data(), container.size() + 1);
    must(again && !again->empty(), "a container that we made is refused");
    size_t was = 0, is = 0;
    for (const NamedText& text : texts) was += text.text.size();
    for (const NamedText& text : *again) is += text.text.size();
    must(is <= was + texts.size() + container.size(), "a container grew");
}

CUresult refuse_load(CUlibrary*, const void* image, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                     void**, unsigned int) {
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}
CUresult create_link(unsigned int, CUjit_option*, void**, CUlinkState* state) {
    *state = nullptr;
    return CUDA_SUCCESS;
}
CUresult add_to_link(CUlinkState, CUjitInputType, void* data, size_t size, const char*, unsigned int,
                     CUjit_option*, void**) {
    return texts_in(data, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
CUresult refuse_complete(CUlinkState, void**, size_t*) {
    return CUDA_ERROR_INVALID_PTX;
}

// The runtime library gets a program's registration: a wrapper, and the images that it was linked from. The
// driver below it refuses the one and reads the others.
void register_and_link(const Block& image) {
    static const cudart::Driver driver = [] {
        cudart::Driver made{};
        made.cuLibraryLoadData = refuse_load;
        made.cuLinkCreate_v2 = create_link;
        made.cuLinkAddData_v2 = add_to_link;
        made.cuLinkComplete = refuse_complete;
        return made;
    }();
    const void* const linked_from[] = {image.data(), image.data(), nullptr};
    const struct {
        int magic, version;
        const void* data;
        const void* const* linked_from;
    } wrapper = {0x466243b1, 2, image.data(), linked_from};
    cudart::FatBinary binary;
    binary.wrapper = &wrapper;
    CUlibrary library = nullptr;
    must(cudart::load(driver, binary, library) != CUDA_SUCCESS, "the runtime library invented a library");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const Block block(std::as_bytes(std::span(data, size)));
    if (size == 0) return 0;
    if (const auto texts = texts_in(block.data(), block.size())) keep_through_a_container(*texts);
    texts_of_object(block.data(), block.size());

    // From here on the image alone says how long it is, as programs hand it over.
    const auto length = wire::image_bytes(block.span());
    if (!length) return 0;
    must(*length > 0 && *length <= size, "an image is measured as longer than what there is");
    const Block measured(block.span().first(*length));
    must(wire::image_bytes(measured.span()) == length, "an image cut to its length has another");
    texts_in(measured.data(), std::nullopt);
    register_and_link(measured);
    return 0;
}
