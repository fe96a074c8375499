// The driver's own compiler: makes of a text what a driver would make of it when it is loaded, so that it can
// be looked at before. What a text's variables take only the compiler knows for certain.
#pragma once

#include <string>

#include "driver.h"
#include "jit.h"

namespace worker {

// PTX text to a cubin. NOT_SUPPORTED where the driver cannot; else the driver's word, with its log in
// `options`.
CUresult compile_text(const Driver& driver, const std::string& text, JitOptions& options, std::string& cubin);

}  // namespace worker
