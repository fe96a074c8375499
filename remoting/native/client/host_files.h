// The files in which this process's pinned memory lies, where its worker may share it: one an allocation,
// without a name, in memory, this process's own. When a kernel is to use the memory, the worker gets the
// file's descriptor and maps it at the same address: host and kernels then work on the same pages
// (docs/design/shared-memory.md, "Pinned memory").
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace client {

class HostFiles {
  public:
    // So many at a time at most: each is a descriptor of the program's.
    static constexpr size_t kMost = 256;

    static HostFiles& get();

    // A file for `bytes`, whole pages, whose size is sealed; the caller's until keep(). -1 where nothing is
    // to be shared, or there are as many as may be. The first time in a life this asks for the passage.
    int make(uint64_t bytes);
    // The file is mapped at `base`. Owns the descriptor from then on.
    void keep(uint64_t base, uint64_t bytes, int file);
    // The memory there is about to be unmapped. Nothing where it lies in no file.
    void drop(uint64_t base);
    // -1 where the memory there lies in none.
    int file_at(uint64_t base) const;
    // Makes the worker able to map what is at `base`. False where it cannot be.
    bool pass(uint64_t base);

    // The passage goes; the files stay with the program's memory.
    void end_life();
    // In the child of a fork. What is pinned becomes a copy of its own when it writes there.
    void forget_after_fork();

  private:
    enum class State { unknown, none, open };
    bool is_open();
    size_t room() const;
    static void detach(uint64_t base, uint64_t bytes, int file);

    // A child of a fork reads them without the lock. An entry without a file is nobody's.
    struct Entry {
        std::atomic<uint64_t> base{0}, bytes{0};
        std::atomic<int> file{-1};
    };
    mutable std::mutex mutex_;  // of who changes what follows
    std::array<Entry, kMost> entries_{};
    size_t count_ = 0;
    std::atomic<State> state_{State::unknown};
    int passage_ = -1;
};

}  // namespace client
