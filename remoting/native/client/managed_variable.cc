// cuLibraryGetManaged: a variable that programs and kernels touch at one address.
//
// The variable is the server's; here its pages are mapped at the same addresses, and it is a region of
// SharedMemory like any managed memory. Pages are mapped once and stay: other variables lie on them too. It
// begins with what the server has, because the image says with what it starts.
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <set>

#include "call.h"
#include "shared_memory.h"
#include "slice_file.h"

namespace client {
namespace {

struct Mapped {
    std::mutex mutex;
    std::set<uint64_t> pages;
    std::set<uint64_t> variables;
};

Mapped& mapped() {
    static auto* all = new Mapped;
    return *all;
}

// Whether all pages of [address, address + bytes) are ours, those of them that were not yet being so now.
bool map_pages(Mapped& all, uint64_t address, uint64_t bytes) {
    static const uint64_t page_bytes = sysconf(_SC_PAGESIZE);
    for (uint64_t page = address / page_bytes * page_bytes; page < address + bytes; page += page_bytes) {
        if (all.pages.contains(page)) continue;
        void* wanted = reinterpret_cast<void*>(page);
        void* got = mmap(wanted, page_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (got == MAP_FAILED) return false;
        if (got != wanted) {
            munmap(got, page_bytes);
            return false;
        }
        all.pages.insert(page);
    }
    return true;
}

}  // namespace

CUresult share_variable(uint64_t address, uint64_t bytes) {
    Call call;
    if (CUresult error = call.begin()) return error;
    const std::lock_guard lock(mapped().mutex);
    if (mapped().variables.contains(address)) return CUDA_SUCCESS;
    if (!map_pages(mapped(), address, bytes)) return CUDA_ERROR_NOT_SUPPORTED;
    void* here = reinterpret_cast<void*>(address);
    if (CUresult error = call.copy_out(here, address, bytes, 0)) return error;
    // Beside other managed memory that both sides use at once, a variable is at least nobody's to lose.
    const bool beside = SliceFile::get().is_open();
    SharedMemory::get().add(here, address, bytes, call.device(),
                            beside ? SharedMemory::Host::works_beside : SharedMemory::Host::waits);
    mapped().variables.insert(address);
    return CUDA_SUCCESS;
}

void forget_managed_variable(uint64_t address) {
    const std::lock_guard lock(mapped().mutex);
    if (mapped().variables.erase(address)) SharedMemory::get().forget(address);
}

void forget_managed_variables() {
    const std::lock_guard lock(mapped().mutex);
    mapped().variables.clear();
}

}  // namespace client
