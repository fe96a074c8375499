// What of each slice's memory is in use, and by whom. The slice's limit is enforced here, before the driver
// is asked; so is the rule that copies touch the lease's own memory only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace worker {

class HostMapping;
class Pool;
class Session;

struct Allocation {
    uint64_t base = 0;
    uint64_t bytes = 0;
    uint64_t charged = 0;  // against the slice; 0 for a variable of a library and for a mapping, which
                           // are charged with the image and the memory, and for memory of the host
    const Session* owner = nullptr;
    uint8_t device = 0;
    bool joins = false;  // a mapping: with the next one, if that begins where this ends, it is as one
    std::shared_ptr<Pool> pool{};         // that it is of: it then has the charge
    std::shared_ptr<HostMapping> host{};  // that it is: it goes with the last allocation that says so
};

class MemoryLedger {
  public:
    // `limits`: bytes, one a device.
    explicit MemoryLedger(std::vector<uint64_t> limits);

    // What an allocation of `bytes` counts: whole granules, as drivers hand out memory.
    static uint64_t charge_of(uint64_t bytes);

    // Takes `charge` from the slice; false when it does not fit. Every reserve is followed by add (which
    // keeps it) or give_back. Callers ask SliceRoom, which looks first what has come back.
    bool reserve(uint8_t device, uint64_t charge);
    void give_back(uint8_t device, uint64_t charge);
    // Takes what the driver has taken already, whether it fits or not: nothing more is given out until it
    // does.
    void take_beyond(uint8_t device, uint64_t charge);

    void add(const Allocation& allocation);
    // The allocation that starts at `base`, if `owner` made it; it is then forgotten, but still charged.
    std::optional<Allocation> take(uint64_t base, const Session* owner);
    std::vector<Allocation> take_all(const Session* owner);
    std::vector<Allocation> take_device(const Session* owner, uint8_t device);

    // A library's variable is gone with it, or a mapping.
    void forget_global(uint64_t base, const Session* owner);

    // Whether [address, address + bytes) lies inside one allocation of the lease, or inside mappings
    // that join.
    bool accessible(uint64_t address, uint64_t bytes) const;
    // The same, and whose device that is; nothing where it does not, or for no bytes.
    std::optional<uint8_t> device_of(uint64_t address, uint64_t bytes) const;

    uint64_t used(uint8_t device) const;
    uint64_t limit(uint8_t device) const { return limits_[device]; }
    uint64_t left(uint8_t device) const;
    // Over all devices; for the status.
    uint64_t used_of_all() const;
    uint64_t peak_of_all() const;

  private:
    template <typename Predicate>
    std::vector<Allocation> take_if(Predicate predicate);

    const std::vector<uint64_t> limits_;
    mutable std::shared_mutex mutex_;
    std::vector<uint64_t> used_;
    uint64_t peak_ = 0;
    std::map<uint64_t, Allocation> by_base_;
};

}  // namespace worker
