#include "memory.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "platform.h"

namespace graphs {
namespace {

struct Book {
    std::mutex mutex;
    std::map<CUdeviceptr, std::weak_ptr<Allocation>> known;
    std::map<CUdeviceptr, AllocationRef> live;  // what the program may use keeps itself
    std::map<uint8_t, MemoryFigures> figures;
    std::atomic<size_t> count{0};  // of `known`, so that who has none takes no lock
};

Book& book() {
    static auto* one = new Book;
    return *one;
}

void raise(uint64_t& value, uint64_t& high, uint64_t by) {
    value += by;
    high = std::max(high, value);
}

}  // namespace

AllocationRef Allocation::make(uint8_t device, size_t bytes) {
    require(bytes > 0);
    const AllocationRef made(new Allocation(device, bytes, platform::allocate(device, bytes)));
    const std::lock_guard lock(book().mutex);
    book().known[made->address] = made;
    book().count.store(book().known.size());
    MemoryFigures& figures = book().figures[device];
    raise(figures.reserved, figures.reserved_high, bytes);
    return made;
}

Allocation::~Allocation() {
    {
        const std::lock_guard lock(book().mutex);
        book().known.erase(address);
        book().count.store(book().known.size());
        book().figures[device].reserved -= bytes;
    }
    platform::free(device, address);
}

bool Allocation::set_live(bool live) {
    AllocationRef last;  // goes after the lock
    const std::lock_guard lock(book().mutex);
    if (live_ == live) return false;
    live_ = live;
    MemoryFigures& figures = book().figures[device];
    if (live) {
        book().live[address] = shared_from_this();
        raise(figures.used, figures.used_high, bytes);
    } else {
        last = std::move(book().live[address]);
        book().live.erase(address);
        figures.used -= bytes;
    }
    return true;
}

AllocationRef find_allocation(CUdeviceptr address) {
    if (book().count.load(std::memory_order_acquire) == 0) return nullptr;
    const std::lock_guard lock(book().mutex);
    auto found = book().known.find(address);
    return found == book().known.end() ? nullptr : found->second.lock();
}

bool free_of_graph(CUdeviceptr address) {
    const AllocationRef found = find_allocation(address);
    if (!found) return false;
    require(found->freed_by == 0 || found->freed_by != found->owner);
    require(found->set_live(false));
    return true;
}

MemoryFigures memory_figures(uint8_t device) {
    const std::lock_guard lock(book().mutex);
    return book().figures[device];
}

void reset_high(uint8_t device, bool used, bool reserved) {
    const std::lock_guard lock(book().mutex);
    MemoryFigures& figures = book().figures[device];
    if (used) figures.used_high = figures.used;
    if (reserved) figures.reserved_high = figures.reserved;
}

// What the program was given by graphs goes, too, though no graph is left.
void forget_allocations() {
    std::map<CUdeviceptr, AllocationRef> live;
    {
        const std::lock_guard lock(book().mutex);
        live.swap(book().live);
    }
    live.clear();
    const std::lock_guard lock(book().mutex);
    book().figures.clear();
}

}  // namespace graphs
