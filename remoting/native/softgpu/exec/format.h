// printf as C has it, with the arguments of a kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace softgpu {

// Where a call's arguments and texts come from. Each returns false when it leaves the memory that may be
// read.
struct PrintSource {
    std::function<bool(void* to, unsigned bytes)> next;                          // the next argument
    std::function<bool(uint64_t address, size_t most, std::string& text)> text;  // a C string
};

// False when an argument or a text could not be read. `arguments` is how many were.
bool format_print(const std::string& pattern, const PrintSource& source, std::string& out, int& arguments);

}  // namespace softgpu
