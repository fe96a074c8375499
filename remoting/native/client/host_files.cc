#include "host_files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <new>

#include "descriptor.h"
#include "protocol.h"
#include "session.h"
#include "sharing.h"

namespace client {
namespace {

constexpr uint64_t kPage = wire::kFilePage;
constexpr int kAccess = PROT_READ | PROT_WRITE;

// A page that is not there would be made by whoever touches it first, on his account. Only reads: the host
// may be writing there.
void touch(uint64_t base, uint64_t bytes) {
    for (uint64_t at = base; at < base + bytes; at += kPage)
        static_cast<void>(*reinterpret_cast<const volatile char*>(at));
}

// Whether the other end has come to the worker, which says so: what is asked for by a lane could be there
// before it.
bool worker_has(int passage) {
    constexpr int kSeconds = 10;
    char here;
    pollfd entry{passage, POLLIN, 0};
    return passage >= 0 && poll(&entry, 1, kSeconds * 1000) == 1 &&
           recv(passage, &here, 1, MSG_DONTWAIT) == 1;
}

// A program that makes a file larger than its limit (ulimit -f) is sent SIGXFSZ, and ends.
bool file_may_have(uint64_t bytes) {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

}  // namespace

HostFiles& HostFiles::get() {
    static auto* files = new HostFiles;
    return *files;
}

bool HostFiles::is_open() {
    if (state_.load(std::memory_order_acquire) == State::unknown) {
        const std::lock_guard lock(mutex_);
        if (state_.load() == State::unknown) {
            wire::Descriptor passage(may_share() ? Session::get().open_passage() : -1);
            passage_ = worker_has(passage.fd()) ? passage.release() : -1;
            state_.store(passage_ >= 0 ? State::open : State::none, std::memory_order_release);
        }
    }
    return state_.load(std::memory_order_acquire) == State::open;
}

// The program needs descriptors for itself.
size_t HostFiles::room() const {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    return std::min<size_t>(kMost, limit.rlim_cur / 4);
}

int HostFiles::make(uint64_t bytes) {
    if (!file_may_have(bytes) || !is_open()) return -1;
    {
        const std::lock_guard lock(mutex_);
        if (count_ >= room()) return -1;
    }
    wire::Descriptor file(memfd_create("gpu-kernels pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const bool made = file.fd() >= 0 && ftruncate(file.fd(), static_cast<off_t>(bytes)) == 0 &&
                      fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
    return made ? file.release() : -1;
}

void HostFiles::keep(uint64_t base, uint64_t bytes, int file) {
    const std::lock_guard lock(mutex_);
    const auto free =
        std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.file < 0; });
    if (free == entries_.end()) {  // others were faster: the memory is as good, and is not shared
        close(file);
        return;
    }
    free->base = base;
    free->bytes = bytes;
    free->file = file;
    ++count_;
}

void HostFiles::drop(uint64_t base) {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
        if (entry.file < 0 || entry.base != base) continue;
        close(entry.file.exchange(-1));
        --count_;
        return;
    }
}

int HostFiles::file_at(uint64_t base) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), [base](const Entry& entry) {
        return entry.file >= 0 && entry.base == base;
    });
    return found == entries_.end() ? -1 : found->file.load();
}

bool HostFiles::pass(uint64_t base) {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_) {
        if (entry.file < 0 || entry.base != base) continue;
        touch(base, entry.bytes);
        const auto name = std::bit_cast<std::array<uint8_t, sizeof base>>(base);
        return passage_ >= 0 && wire::send_with_descriptor(passage_, name, entry.file);
    }
    return false;
}

void HostFiles::end_life() {
    const std::lock_guard lock(mutex_);
    if (passage_ >= 0) close(passage_);
    passage_ = -1;
    state_.store(State::unknown, std::memory_order_release);
}

// The copy that the child of a fork has, whose pages are made where it writes. The parent's pages may not
// stay: where there can be no copy, nothing is there.
void HostFiles::detach(uint64_t base, uint64_t bytes, int file) {
    void* const at = reinterpret_cast<void*>(base);
    constexpr int kCopy = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
    if (mmap(at, bytes, kAccess, kCopy, file, 0) != MAP_FAILED) return;
    mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
}

// No lock: another thread of the parent may have held it. Memory that was just being made or dropped was
// nobody's to look at.
void HostFiles::forget_after_fork() {
    new (&mutex_) std::mutex;
    for (Entry& entry : entries_) {
        const int file = entry.file.exchange(-1);
        if (file < 0) continue;
        detach(entry.base, entry.bytes, file);
        close(file);
    }
    count_ = 0;
    if (passage_ >= 0) close(passage_);
    passage_ = -1;
    state_.store(State::unknown);
}

}  // namespace client
