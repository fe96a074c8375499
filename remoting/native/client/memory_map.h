// The memory that this process has: on the device, pinned on the host, or both. Answers what a pointer is
// without asking the worker.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>

namespace client {

struct Memory {
    enum class Kind : uint8_t { device, pinned, managed };
    uint64_t base = 0;  // the address that the program uses
    uint64_t bytes = 0;
    Kind kind = Kind::device;
    uint8_t device = 0;
    bool registered = false;  // the program's own memory, by cuMemHostRegister
    bool from_pool = false;
    bool global = false;  // a variable of a library; not freed by cuMemFree
    unsigned flags = 0;
    uint64_t device_address = 0;  // of managed memory its base; of pinned memory its shadow, 0 without one
    uint64_t id = 0;              // CU_POINTER_ATTRIBUTE_BUFFER_ID
};

class MemoryMap {
  public:
    static MemoryMap& get();

    void add(Memory memory);
    // The one that holds `address`.
    std::optional<Memory> find(uint64_t address) const;
    // Removes the one that starts at `base`; nothing when there is none.
    std::optional<Memory> remove(uint64_t base);
    void set_device_address(uint64_t base, uint64_t device_address);
    // Device memory of `device` is gone with its context.
    void forget_device(uint8_t device);

  private:
    mutable std::shared_mutex mutex_;
    std::map<uint64_t, Memory> by_base_;
    uint64_t last_id_ = 0;
};

}  // namespace client
