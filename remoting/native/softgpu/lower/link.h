// Several parsed PTX texts to one image.
#pragma once

#include <memory>
#include <vector>

#include "exec/image.h"
#include "lower/symbols.h"
#include "ptx/syntax.h"

namespace softgpu::lower {

// Throws ptx::Error; `failed` is then the module that it is about.
std::unique_ptr<Image> link(const std::vector<ptx::Module>& modules, bool allow_undefined, size_t& failed);

}  // namespace softgpu::lower
