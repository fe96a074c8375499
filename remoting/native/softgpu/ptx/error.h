// The exceptions of the PTX front end. They never leave Program::link.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace softgpu::ptx {

class Error : public std::runtime_error {
  public:
    Error(unsigned line, const std::string& what, unsigned column = 0)
        : std::runtime_error(what), line(line), column(column) {}
    unsigned line;    // in the PTX text, 0 when the error belongs to no line
    unsigned column;  // of the word that the error is about, from 1; 0 when it is not known
};

// What no input defines. Other errors in a function's body refuse that function; this one refuses the link,
// as linkers do.
class Undefined : public Error {
  public:
    using Error::Error;
};

// As the logs of NVIDIA's tools have it, so that programs find the line where they look for it: "ptxas INPUT,
// line 12; error   : WHAT (column 3)".
std::string describe(const Error& error, std::string_view input);

}  // namespace softgpu::ptx
