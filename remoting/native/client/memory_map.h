// The memory that this process has: on the device, pinned on the host, or both. Answers what a pointer is
// without asking the worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace client {

struct Memory {
    enum class Kind : uint8_t { device, pinned, managed };
    uint64_t base = 0;  // the address that the program uses
    uint64_t bytes = 0;
    Kind kind = Kind::device;
    uint8_t device = 0;
    uint64_t context = 0;     // id of the context that owns it; 0: MemoryMap::add takes the current one
    bool registered = false;  // the program's own memory, by cuMemHostRegister
    bool mapping = false;     // by cuMemMap
    bool global = false;      // a variable of a library; not freed by cuMemFree
    bool in_place = false;    // of the host's memory: kernels use the same pages
    unsigned flags = 0;
    uint64_t device_address = 0;  // of managed memory its base; of pinned memory its shadow, 0 without one
    uint64_t physical = 0;        // of a mapping, or a twin at its own address: the handle of its memory
    uint32_t access = 0;          // of a mapping: a bit for each device that has access
    uint64_t pool = 0;            // the handle of the pool that it is from
    uint64_t id = 0;              // CU_POINTER_ATTRIBUTE_BUFFER_ID
};

class MemoryMap {
  public:
    static MemoryMap& get();

    void add(Memory memory);
    // The same, unless memory that is known holds its first address: then false.
    bool add_new(Memory memory);
    // The one that holds `address`.
    std::optional<Memory> find(uint64_t address) const;
    // Whether all of [address, address + bytes) is memory that the program has on the device: in one
    // allocation, or in mappings that follow each other without a gap.
    bool on_device(uint64_t address, uint64_t bytes) const;
    // Removes the allocation of one of these kinds that starts at `base`; nothing when there is none.
    std::optional<Memory> remove(uint64_t base, std::initializer_list<Memory::Kind> kinds);
    // The same for memory of the host: pinned, or registered by the program.
    std::optional<Memory> remove_host(uint64_t base, bool registered);
    // Takes the device memory that the context owned off the map.
    std::vector<Memory> take_of_context(uint64_t context);
    // What cuMemMap has made; [base, base + bytes) is whole mappings.
    std::vector<Memory> remove_mappings(uint64_t base, uint64_t bytes);
    void set_access(uint64_t base, uint64_t bytes, uint8_t device, bool granted);
    // The life ends: nothing is on the device any more. What it had in this process stays the program's, as
    // ordinary memory, until the program gives it back.
    void end_life();
    // Host memory of an earlier life that cuMemHostAlloc, cuMemAllocManaged or their kin gave out at `base`:
    // it is forgotten, and to be unmapped. Cheap where there is none.
    std::optional<Memory> take_earlier(uint64_t base, Memory::Kind kind);
    // Device memory of an earlier life that began at `base`: it has gone already, and is freed once.
    bool free_earlier(uint64_t base);
    // Whether the program was given device memory there in an earlier life, and may still take it for its
    // own.
    bool was_given_out(uint64_t address, uint64_t bytes) const;

    // Pinned memory is on the device too, as `twin` says: device_address, physical, in_place.
    void set_twin(const Memory& twin);

  private:
    // With the mutex.
    void put(Memory& memory);
    const Memory* at(uint64_t address) const;
    template <class Test>
    std::optional<Memory> remove_if(uint64_t base, Test&& test);

    static bool reachable(const Memory& memory);
    static void count(const Memory& memory, bool has);

    mutable std::shared_mutex mutex_;
    std::map<uint64_t, Memory> by_base_;
    std::map<uint64_t, Memory> earlier_;      // host memory of lives that have ended
    std::map<uint64_t, uint64_t> given_out_;  // device memory of those: base, bytes
    std::atomic<bool> any_earlier_{false};
    uint64_t last_id_ = 0;
};

}  // namespace client
