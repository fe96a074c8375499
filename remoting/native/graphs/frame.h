// The frame of every entry point: one lock over all graphs and captures, and what must go after it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "failure.h"
#include "platform.h"

namespace graphs {

class Frame {
  public:
    Frame();
    ~Frame();  // gives the lock back, then lets go of what was discarded, and last tells the program
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

    // May be the last reference to something that calls the program as it goes. Under the lock.
    static void discard(std::shared_ptr<void> last);

  private:
    std::vector<std::shared_ptr<void>> discarded_;
    std::unique_lock<std::mutex> lock_;
};

// Runs an entry point's body, which throws Failure or returns nothing.
template <class Body>
CUresult call(Body&& body) noexcept {
    if (CUresult error = platform::ready()) return error;
    return guarded([&] {
        const Frame frame;
        body();
    });
}

}  // namespace graphs
