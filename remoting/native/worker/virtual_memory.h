// What a session has of addresses without memory, memory without addresses, and mappings of one on the other.
// All sessions of the lease share the driver's context, so what a session names is looked up here first: it
// maps only its own memory, and only into its own reservations.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "driver.h"
#include "memory_ledger.h"
#include "protocol.h"

namespace worker {

class SoftwareSession;
struct Worker;

// Memory by cuMemCreate: charged to the slice until it has no handle and no mapping.
class Physical {
  public:
    Physical(Worker& worker, uint8_t device, uint64_t bytes, uint64_t charged,
             CUmemGenericAllocationHandle handle)
        : worker(worker), device(device), bytes(bytes), charged(charged), handle(handle) {}
    ~Physical();
    Physical(const Physical&) = delete;
    Physical& operator=(const Physical&) = delete;

    Worker& worker;
    const uint8_t device;
    const uint64_t bytes, charged;
    const CUmemGenericAllocationHandle handle;
};

class VirtualMemory {
  public:
    // Of the whole lease's process, which has 65,530 pieces of address space.
    static constexpr size_t kMaxMappings = 8192;
    static constexpr size_t kMaxReservations = 1024;

    explicit VirtualMemory(const Session* owner) : owner_(owner) {}

    CUresult reserve(Worker& worker, uint64_t bytes, uint64_t align, uint64_t wanted, uint64_t& base);
    CUresult free(Worker& worker, uint64_t base, uint64_t bytes);
    CUresult map(Worker& worker, uint64_t base, uint64_t bytes, uint64_t offset,
                 const std::shared_ptr<Physical>& physical);
    CUresult unmap(Worker& worker, uint64_t base, uint64_t bytes);
    // Access for a device; the mapping's own device also says whether copies may touch it.
    CUresult set_access(Worker& worker, const wire::AccessHead& head, const SoftwareSession& software);
    // Nothing runs any more.
    void free_all(Worker& worker);

  private:
    struct Mapping {
        uint64_t bytes;
        std::shared_ptr<Physical> physical;
        bool accessible;
    };
    using Mappings = std::map<uint64_t, Mapping>;
    // Whether [base, base + bytes) is made of whole mappings; `end` is then what follows the last of them.
    bool made_of(uint64_t base, uint64_t bytes, Mappings::iterator& first, Mappings::iterator& end);

    const Session* const owner_;
    std::mutex mutex_;
    std::map<uint64_t, uint64_t> reservations_;  // base to bytes
    Mappings mappings_;                          // by base
};

}  // namespace worker
