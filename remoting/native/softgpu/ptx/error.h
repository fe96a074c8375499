// The one exception of the PTX front end. It never leaves Program::link.
#pragma once

#include <stdexcept>
#include <string>

namespace softgpu::ptx {

class Error : public std::runtime_error {
  public:
    Error(unsigned line, const std::string& what) : std::runtime_error(what), line(line) {}
    unsigned line;  // in the PTX text, 0 when the error belongs to no line
};

}  // namespace softgpu::ptx
