// What the other processes of a lease can see of this one: that it has a session. NVML's list of a slice's
// processes is made of it. It is an open file in memory whose name says the lease: it is there for those who
// may look into this process, of no other lease, and gone when the process is, however it ends.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace client {

inline std::string presence_name(std::string_view lease) {
    return "gpu-kernels " + std::string(lease);
}

// What /proc/PID/fd says of such a file.
inline std::string presence_link(std::string_view lease) {
    return "/memfd:" + presence_name(lease) + " (deleted)";
}

class Presence {
  public:
    // Without a file the process is not listed, and that is all.
    void show(std::string_view lease) { fd_ = memfd_create(presence_name(lease).c_str(), MFD_CLOEXEC); }
    // In the child of a fork, which has no session.
    void forget() {
        if (fd_ >= 0) close(fd_);
        fd_ = -1;
    }

  private:
    int fd_ = -1;
};

}  // namespace client
