// The slice's memory in this process, where the worker is on the same host: mappable allocations, each mapped
// at the device's own address (docs/design/shared-memory.md).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>

namespace client {

class SliceFile {
  public:
    // Smaller ones are not worth pages of their own, and a mapping.
    static constexpr uint64_t kLeast = 64 * 1024;

    // What a life leaves where a mapping was: empty memory, or what was in it.
    enum class AtEnd : bool { empty, kept };

    static SliceFile& get();

    // From now on allocations are to be mapped, in this life and later ones.
    void want() { wanted_.store(true, std::memory_order_release); }
    // Whether an allocation of so many bytes is to be asked for so that it can be mapped. The first time in a
    // life this asks the agent for the file.
    bool wants(uint64_t bytes);
    // Whether there is a file in this life, for memory that the host sees as kernels do. The first time in a
    // life this asks the agent for it.
    bool is_open();

    // Whether [address, address + bytes) is here now. The worker's words are looked at: the place must lie in
    // the file, and the address where nothing of this process is.
    bool map(uint64_t address, uint64_t bytes, uint64_t place, AtEnd at_end);
    // The mapping that begins there goes, or what a life has left of it. False where there is none.
    bool unmap(uint64_t address);
    bool holds(uint64_t address, uint64_t bytes) const;
    // Whether the program has data in it that it takes for its own.
    bool keeps_any() const;

    // What is mapped becomes memory of this process, until it is unmapped: a thread that still works there is
    // not ended by it. Nothing else is ever mapped over it.
    void end_life();
    // In the child of a fork, which has none of the mappings.
    void forget_after_fork();

  private:
    enum class State { unknown, none, open };
    struct Mapping {
        uint64_t bytes;  // whole pages
        uint64_t place;
        AtEnd at_end;
    };
    void open();
    // With mutex_ held: these addresses are another allocation's now, which is not mapped, so none of ours
    // reaches there. What is there stays until it is unmapped: somebody may still work on it.
    void forget(uint64_t address, uint64_t bytes);
    // With mutex_ held.
    void leave(uint64_t address, const Mapping& mapping) const;

    std::atomic<bool> wanted_{false};
    std::atomic<State> state_{State::unknown};
    mutable std::shared_mutex mutex_;  // of what follows
    int file_ = -1;
    uint64_t bytes_ = 0;
    std::map<uint64_t, Mapping> mapped_;  // by base
    std::map<uint64_t, uint64_t> left_;   // base to bytes, of lives that have ended
};

}  // namespace client
