// Finds the handler of an instruction by its canonical name, in the tables of this machine's instruction set.
#pragma once

#include <string>

#include "exec/op.h"

namespace softgpu {

// Null when there is none.
Handler find_handler(const std::string& name);

// Null when this machine can run none of the compiled executors.
const char* instruction_set();

extern const HandlerTable kControlHandlers;

}  // namespace softgpu
