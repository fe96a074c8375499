// What the calling thread's links and launches are checked for. Beside engine.h, and not in it: who does not
// check sees and pays nothing of this.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace softgpu::check {

enum Check : uint32_t { races = 1, unwritten = 2, divergence = 4 };

struct Request {
    uint32_t checks = 0;
    // The findings of a launch, a line each, when it has ended.
    std::function<void(std::string_view)> report = {};
};

// While it lives, Program::link in this thread makes programs that can be checked, and run() checks them.
class Scope {
  public:
    explicit Scope(const Request& request);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

  private:
    const Request* const before_;
};

const Request* current_request();  // null outside of a Scope, and where it asks for nothing

}  // namespace softgpu::check
