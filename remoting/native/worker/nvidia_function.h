// Functions of NVIDIA's libraries, by name. One that a library lacks, being older than what the program was
// made for, is noted for the line that the session's person gets.
#pragma once

#include <string>

namespace worker {

// Null where the library lacks it.
void* function_of(void* library, const std::string& name);
// The first that was not found by this thread since this was asked last; empty where all were.
std::string take_missing_function();

}  // namespace worker
