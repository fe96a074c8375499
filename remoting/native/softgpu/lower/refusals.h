// Functions and kernels of a link that cannot run, while the others can.
#pragma once

#include <optional>
#include <vector>

#include "exec/image.h"
#include "ptx/error.h"

namespace softgpu::lower {

class Refusals {
  public:
    // The function has no code but an op that says why. `input`: its text's name, of text `number` of the
    // link.
    void refuse(Image& image, uint32_t function, const ptx::Error& error, size_t number,
                std::string_view input);
    // Only the kernel: what it is made of is sound, but too much.
    void refuse_kernel(Image& image, uint32_t function, const ptx::Error& error, size_t number,
                       std::string_view input);

    // When all functions are lowered: who may call a refused function is refused for its reason. A function
    // whose address is taken counts as called, and a kernel too.
    void spread(const Image& image);
    // Is this kernel refused? Then the image's list has it from now on.
    bool refused(Image& image, uint32_t kernel) const;

    // The first refusal as the error that it was, if there is one; `failed` is then the text that it is
    // about.
    void rethrow(size_t& failed) const;

  private:
    struct First {
        ptx::Error error;
        size_t number;
    };
    void remember(const ptx::Error& error, size_t number);

    std::optional<First> first_;
    std::vector<uint32_t> culprit_;  // by function: which refused one it may call, or kNone
};

}  // namespace softgpu::lower
