// The one exception of the PTX front end. It never leaves Program::link.
#pragma once

#include <stdexcept>
#include <string>

namespace softgpu::ptx {

class Error : public std::runtime_error {
  public:
    Error(unsigned line, const std::string& what, unsigned column = 0)
        : std::runtime_error(what), line(line), column(column) {}
    unsigned line;    // in the PTX text, 0 when the error belongs to no line
    unsigned column;  // of the word that the error is about, from 1; 0 when it is not known
};

}  // namespace softgpu::ptx
