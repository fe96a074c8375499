// Which instructions machine code can do, and how each is done on one warp's lanes.
#pragma once

#include "instructions/code.h"
#include "machine_code/run.h"

namespace softgpu::machine_code {

// The `locate` that wrote what a `.kept` access finds, by its place in the frame.
using Located = std::unordered_map<uint32_t, const Op*>;

// An op's number; of several names of one handler, one.
Code code_of(Handler handler);

// The slots of lanes that an instruction reads and writes, with whether they are wide. None of one that is
// not known here.
struct Slots {
    std::vector<std::pair<uint32_t, bool>> read;
    std::optional<std::pair<uint32_t, bool>> written;
};
std::optional<Slots> slots_of(Code code, const Op& op);

// Can it be done?
bool supports(Code code, const Op& op, const Run& run, const Located& located);
// Does it.
void emit(Code code, const Op& op, Run& run, const Located& located);

// Can it be done under a guard, and the two together.
bool is_guardable(Code code);
void emit_guarded(const Op& guard, Code code, const Op& op, Run& run);

// Accesses (memory.cc).
bool is_access(Code code);
bool supports_access(Code code, const Op& op, const Run& run, const Located& located);
void emit_access(Code code, const Op& op, Run& run, const Located& located);
Slots slots_of_access(Code code, const Op& op);
bool finds_its_place(Code code);  // by itself, not what a `locate` kept

}  // namespace softgpu::machine_code
