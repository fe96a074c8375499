// What a library looks at a call with, in the program's process: whether its sizes go together, and whether
// what does the library's calls does so much.
#pragma once

#include "driver.h"
#include "operands.h"

namespace libraries {

class ProgramLook : public maths::Look {
  public:
    ProgramLook(GkLibrary library, uint8_t major, bool wide, bool scalars_on_device)
        : Look(wide, scalars_on_device), library_(library), major_(major) {}
    GkEnd end() override { return end_of(library_, major_); }

  protected:
    // Where the memory is, the end that computes asks.
    void operand(const maths::Operand&) override {}

  private:
    const GkLibrary library_;
    const uint8_t major_;
};

}  // namespace libraries
