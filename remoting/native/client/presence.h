// What the other processes of a lease can see of this one: that it has a session, and how much memory it has
// on each device. NVML's list of a slice's processes is made of it. It is an open file in memory whose name
// says the lease: it is there for those who may look into this process, of no other lease, and gone when the
// process is, however it ends. It has a word for each of the lease's devices, in their order: bytes.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol.h"

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
    void show(std::string_view lease) {
        fd_ = memfd_create(presence_name(lease).c_str(), MFD_CLOEXEC);
        if (fd_ < 0 || fstat(fd_, &file_) != 0) return;
        for (uint8_t device = 0; device < wire::kMaxDevices; ++device) {
            bytes_[device] = 0;
            count(device, 0);
        }
    }
    // At the end of a life, when no call is under way, and in the child of a fork, which has no session.
    void forget() {
        if (is_open()) close(fd_);
        fd_ = -1;
    }
    // The process has so much more on a device of the lease, or less. One thread at a time.
    void count(uint8_t device, int64_t bytes) {
        if (!is_open()) return;
        uint64_t& now = bytes_[device];
        now += static_cast<uint64_t>(bytes);
        [[maybe_unused]] const ssize_t written =
            pwrite(fd_, &now, sizeof now, static_cast<off_t>(device * sizeof now));
    }

  private:
    // Programs close descriptors that they do not know: the number may be another file's by now.
    bool is_open() const {
        struct stat now{};
        return fd_ >= 0 && fstat(fd_, &now) == 0 && now.st_dev == file_.st_dev && now.st_ino == file_.st_ino;
    }

    int fd_ = -1;
    struct stat file_{};
    uint64_t bytes_[wire::kMaxDevices]{};
};

}  // namespace client
