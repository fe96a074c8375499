// Finds the handler of an instruction by its canonical name, in the tables of this machine's instruction set.
#pragma once

#include <string>

#include "exec/op.h"

namespace softgpu {

// Null when there is none.
Handler find_handler(const std::string& name);

// What runs a gang's warps through the instruction that `one` runs a warp through.
GangHandler find_gang_handler(Handler one);

// Is it a function of its operands alone? False for what is in no table.
bool is_pure(Handler one);

// Null when this machine can run none of the compiled executors.
const char* instruction_set();

extern const HandlerTable kControlHandlers, kCheckHandlers;

}  // namespace softgpu
