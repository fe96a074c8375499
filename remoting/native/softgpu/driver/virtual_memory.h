// Addresses and memory apart from each other: ranges of addresses that a program reserves, memory that it
// creates without addresses, and mappings of one on the other.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "engine.h"
#include "handles.h"

namespace softgpu::driver {

class Memory;
class Scheduler;

// Memory of the device that has no address of its own. A file without a name holds it, so that it can be
// mapped at several addresses at once; it counts against the device's memory until it has no handle and no
// mapping.
class Physical : public Object {
  public:
    static constexpr Kind kKind = Kind::physical;
    // Throws OUT_OF_MEMORY.
    static std::shared_ptr<Physical> create(Memory& memory, int device, uint64_t bytes);
    ~Physical() override;

    const int device;
    const uint64_t bytes;

  private:
    friend class VirtualMemory;
    Physical(DeviceMemory& space, int device, uint64_t bytes, uint64_t charge, int file)
        : Object(kKind), device(device), bytes(bytes), space_(space), charge_(charge), file_(file) {}

    DeviceMemory& space_;
    const uint64_t charge_;  // an allocation that nobody touches: it takes the bytes from the device
    const int file_;
    uint64_t references_ = 0;  // by handle; under the mutex of VirtualMemory
};

class VirtualMemory {
  public:
    static constexpr uint64_t kGranularity = 2u << 20;
    // The host maps memory piece by piece, and a process has 65,530 pieces.
    static constexpr size_t kMaxMappings = 16384;
    static constexpr size_t kMaxReservations = 4096;

    // Where addresses are reserved, whatever is wished: nothing else of the process comes there, so an
    // address that is free again is nobody's memory. Programs, their heaps and libraries lie above.
    static constexpr uint64_t kLowest = 0x1000'0000'0000, kHighest = 0x5000'0000'0000;
    static bool may_be_here(uint64_t address) { return address >= kLowest && address < kHighest; }

    explicit VirtualMemory(Scheduler& scheduler) : scheduler_(scheduler) {}

    // A handle's references count; the last release takes it away, and memory that is retained once more gets
    // its own back.
    uint64_t retain(HandleTable& handles, const std::shared_ptr<Physical>& physical);
    void release(HandleTable& handles, const std::shared_ptr<Physical>& physical);

    // In whole pages. `wanted` is a wish; 0 is none.
    uint64_t reserve(uint64_t bytes, uint64_t align, uint64_t wanted);
    void free(uint64_t base, uint64_t bytes);
    // In whole granules.
    void map(uint64_t base, uint64_t bytes, const std::shared_ptr<Physical>& physical);
    // These two wait for all work, which may use the memory.
    void unmap(uint64_t base, uint64_t bytes);
    // For the device that has the memory: no other one reaches it.
    void set_access(uint64_t base, uint64_t bytes, int device, bool accessible);
    // Of the mapping that begins at `base`, kernels reach `bytes` when they are next given access. False
    // where none begins there.
    bool limit(uint64_t base, uint64_t bytes);

    struct Mapping {
        uint64_t bytes;
        std::shared_ptr<Physical> physical;
        bool accessible;
        uint64_t reached;  // by kernels, of bytes
    };
    // Whether all of [address, address + bytes) is mappings with access, one behind the other.
    bool accessible(uint64_t address, uint64_t bytes) const;
    // The mapping that holds the address.
    std::optional<Mapping> find(uint64_t address) const;

  private:
    using Mappings = std::map<uint64_t, Mapping>;
    struct Range {
        Mappings::iterator first, end;
    };
    // The mappings that [base, base + bytes) is made of exactly; throws INVALID_VALUE when it is not.
    Range exactly(uint64_t base, uint64_t bytes);
    void* place(uint64_t bytes, uint64_t wanted);
    void hide(uint64_t base, uint64_t bytes);

    Scheduler& scheduler_;
    mutable std::mutex mutex_;
    std::map<uint64_t, uint64_t> reservations_;  // base to bytes
    Mappings mappings_;                          // by base
    uint64_t next_ = 0;                          // where the search for addresses goes on
};

}  // namespace softgpu::driver
