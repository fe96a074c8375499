// The options of loading and linking that the software GPU heeds: where to put the log of errors. The others
// are about optimising machine code and change nothing here.
#pragma once

#include "image.h"

namespace softgpu::driver {

// The program's buffers for messages. Unknown options are no error, as they are none for CUDA's linker.
class JitLog {
  public:
    JitLog() = default;
    JitLog(unsigned count, CUjit_option* options, void** values);

    // Puts the text, cut to size, into the error log and its length where CUDA reports it: in place of the
    // size that was given.
    void error(const std::string& text);
    void info(const std::string& text);

  private:
    struct Buffer {
        char* text = nullptr;
        unsigned bytes = 0;
        void** size_slot = nullptr;
        void put(const std::string& message);
    };
    Buffer error_, info_;
};

// link_program, with what went wrong also in the program's error log.
std::shared_ptr<const Program> link_logged(const std::vector<NamedText>& texts, JitLog& log);

}  // namespace softgpu::driver
