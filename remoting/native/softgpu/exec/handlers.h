// Finds the handler of an instruction by its number, in the tables of this machine's instruction set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/op.h"
#include "instructions/code.h"

namespace softgpu {

// Null when there is none.
Handler find_handler(Code code);
// Of the handlers that the table of instructions does not name: none, unless one of the two is wrong.
std::vector<std::string_view> handlers_without_code();

// What runs a gang's warps through the instruction that `one` runs a warp through.
GangHandler find_gang_handler(Handler one);

// Is it a function of its operands alone? False for what is in no table.
bool is_pure(Handler one);

// Null when this machine can run none of the compiled executors.
const char* instruction_set();

extern const HandlerTable kControlHandlers, kCheckHandlers;

}  // namespace softgpu
