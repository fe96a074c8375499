// The person's interrupt (SIGINT: a notebook's button, Ctrl-C) while the main thread waits for the worker.
//
// A program hears of a signal when the call that it waits in returns; behind a kernel that never ends that is
// never. So a wait that lasts looks out for it: after kLongWait the main thread puts a handler in front of
// the program's, which notes the signal and calls the program's, and takes it away when the wait is over. A
// SIGINT that was noted is passed on to the worker. A program that ignores SIGINT, or has no handler and so
// ends by it, is left as it is. Short waits pay nothing.
#pragma once

#include "transport.h"

namespace client {

class InterruptWatch final : public wire::Waiting {
  public:
    void goes_on() override;
    void over() override;

  private:
    bool looks_out_ = false;
    bool told_ = false;  // that a second interrupt ends the worker
};

// The same for a wait that is for nobody's worker: as long as one of these is there, `seen` tells of each
// SIGINT once.
class InterruptNote {
  public:
    InterruptNote() { seen(); }
    ~InterruptNote();
    InterruptNote(const InterruptNote&) = delete;
    InterruptNote& operator=(const InterruptNote&) = delete;

    bool seen();

  private:
    bool looks_out_ = false;
};

// Whether the calling thread is the one that signals of the process reach in a Python program.
bool is_main_thread();

}  // namespace client
