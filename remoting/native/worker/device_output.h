// Device printf of a real driver: it goes to this process's standard output, which is therefore a file in
// memory, read out after each call that waits. On a software GPU each session has its text from the driver.
//
// Whose text it is the file does not say. It belongs to the session that has launched since it was last idle,
// if that is one; if several have, it is nobody's: a session never sees another's.
#pragma once

#include <mutex>

namespace worker {

struct Worker;
class Session;

class DeviceOutput {
  public:
    // Makes standard output that file. False when the system does not give one: printf is lost then.
    bool redirect();
    // `session` has waited for work: gives what has been printed to those it belongs to.
    void drain(Worker& worker, Session& session);

  private:
    std::mutex mutex_;
    int file_ = -1;
};

}  // namespace worker
