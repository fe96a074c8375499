#include "image_file.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "fatbin.h"

namespace softgpu::driver {

std::string read_file(const char* path) {
    require(path != nullptr);
    std::ifstream file(path, std::ios::binary);
    require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<NamedText> read_image_file(const char* path) {
    const std::string image = read_file(path);
    require(!image.empty(), CUDA_ERROR_INVALID_IMAGE);
    const char* slash = std::strrchr(path, '/');
    return read_image(image.data(), image.size(), slash ? slash + 1 : path);
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

}  // namespace softgpu::driver
