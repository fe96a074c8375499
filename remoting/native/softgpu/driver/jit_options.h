// The options of loading and linking that the software GPU heeds: where to put the log of errors, and how
// many registers a kernel may say to have. The others are about optimising machine code and change nothing
// here.
#pragma once

#include <functional>

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
    bool takes_errors() const { return error_.text != nullptr && error_.bytes > 0; }

    uint32_t max_registers() const { return max_registers_; }  // 0: no limit

  private:
    struct Buffer {
        char* text = nullptr;
        unsigned bytes = 0;
        void** size_slot = nullptr;
        void put(const std::string& message);
    };
    Buffer error_, info_;
    uint32_t max_registers_ = 0;
};

// What `read` gives. Why it refuses an image goes to the program's error log, or else, as a line, to the
// person: who takes the log may know what to do, as our libcudart does, which then links the image anew.
std::vector<NamedText> read_logged(const std::function<std::vector<NamedText>()>& read, JitLog& log);

// link_program, with what went wrong also in the program's error log. The options that travel with the texts
// are put into them.
std::shared_ptr<const Program> link_logged(std::vector<NamedText>& texts, JitLog& log);

}  // namespace softgpu::driver
