// What programs hand over to be loaded or linked, told apart by its first bytes.
//
// Besides PTX text there is the link container, our stand-in for a cubin: the PTX texts of one link, each
// after a line "// gpu-kernels link input: NAME", ended by one NUL. It is text, so that who forwards it can
// measure it as PTX. cuLinkComplete and the nvJitLink stand-in make it. Where the link had a limit of
// registers, its last text ends in the directive .pragma "gpu-kernels max registers N";
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine.h"
#include "failure.h"

namespace softgpu::driver {

constexpr std::string_view kLinkInput = "// gpu-kernels link input: ";

struct NamedText {
    std::string name;
    std::string text;
};

// An image that is refused, and why, for the person: NO_BINARY_FOR_GPU for machine code, INVALID_IMAGE for
// what is no image.
struct RefusedImage : Failure {
    RefusedImage(CUresult code, std::string why) : Failure{code}, why(std::move(why)) {}
    std::string why;
};

// The PTX texts in an image; throws RefusedImage. `bytes` bounds the reading where the caller knows it; a
// text ends at its NUL, and a fatbin at the size that its header says.
std::vector<NamedText> read_image(const void* image, std::optional<size_t> bytes = std::nullopt,
                                  const char* name = nullptr);

// The PTX in the fatbins of a host object or an archive of them. What holds machine code only adds nothing:
// libcudadevrt.a is such, and the engine brings its functions itself. A symbol that is then missing is an
// error of the link.
std::vector<NamedText> texts_of_object(const void* data, size_t bytes);

std::string make_container(const std::vector<NamedText>& texts);

// The texts under a limit of registers; 0 is no limit.
void limit_registers(std::vector<NamedText>& texts, uint32_t limit);

// Links the texts; throws INVALID_PTX after a line on the log. `error`, which may be null, gets the text.
std::shared_ptr<const Program> link_program(const std::vector<NamedText>& texts, std::string* error);

}  // namespace softgpu::driver
