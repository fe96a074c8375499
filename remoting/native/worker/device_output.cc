#include "device_output.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "worker.h"

namespace worker {
namespace {

constexpr off_t kMostAtOnce = 16 << 20;

// What stands in the file, and empties it.
std::string take_text(int file) {
    std::fflush(stdout);
    struct stat about{};
    if (fstat(file, &about) != 0 || about.st_size == 0) return {};
    std::string text(static_cast<size_t>(std::min(about.st_size, kMostAtOnce)), 0);
    const ssize_t got = pread(file, text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    [[maybe_unused]] const int emptied = ftruncate(file, 0);
    return text;
}

// Whether nothing of the session can run any more. The default stream is shared: while another session works
// on it this one counts as busy, which only makes text nobody's.
bool idle(const Worker& worker, Session& session) {
    bool busy = invoke(worker.driver.cuStreamQuery, CU_STREAM_LEGACY) != CUDA_SUCCESS;
    session.streams.each([&](const OnDevice<CUstream>& stream) {
        busy = busy || invoke(worker.driver.cuStreamQuery, stream.handle) != CUDA_SUCCESS;
    });
    return !busy;
}

}  // namespace

bool DeviceOutput::redirect() {
    file_ = memfd_create("device printf", MFD_CLOEXEC);
    // Appending: what is printed after the file was emptied begins at its start.
    return file_ >= 0 && fcntl(file_, F_SETFL, O_APPEND) == 0 && dup2(file_, STDOUT_FILENO) >= 0;
}

void DeviceOutput::drain(Worker& worker, Session& session) {
    if (file_ < 0) return;
    const std::lock_guard lock(mutex_);
    const std::string text = take_text(file_);
    const auto sessions = worker.all_sessions();
    std::vector<Session*> launched;
    for (const auto& other : sessions) {
        if (other->has_launched.load()) launched.push_back(other.get());
    }
    if (!text.empty() && launched.size() == 1) launched[0]->notices.add(wire::NoticeKind::output, text);
    if (!text.empty() && launched.size() > 1) {
        for (Session* other : launched) {
            other->notices.add(
                wire::NoticeKind::lines,
                "device printf is lost: several programs used this slice at the same time, and "
                "the driver does not say which of them printed");
        }
    }
    if (session.has_launched.load() && idle(worker, session)) session.has_launched.store(false);
}

}  // namespace worker
