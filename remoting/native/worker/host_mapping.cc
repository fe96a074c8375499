#include "host_mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <system_error>
#include <thread>
#include <utility>

#include "descriptor.h"
#include "handlers.h"
#include "in_context.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace worker {
namespace {

constexpr uint64_t kPage = wire::kFilePage;

uint64_t whole_pages(uint64_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

// Memory of this machine, just so long, that nobody makes shorter under the mapping.
bool is_whole(int file, uint64_t bytes) {
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct statfs system{};
    struct stat facts{};
    const int seals = fcntl(file, F_GET_SEALS);
    return seals >= 0 && (seals & kSeals) == kSeals && fstatfs(file, &system) == 0 &&
           system.f_type == TMPFS_MAGIC && fstat(file, &facts) == 0 && facts.st_size >= 0 &&
           static_cast<uint64_t>(facts.st_size) == whole_pages(bytes);
}

bool may_lie(uint64_t address, uint64_t bytes) {
    return bytes > 0 && address % kPage == 0 && address >= wire::kPinnedFirst && address < wire::kPinnedEnd &&
           bytes <= wire::kPinnedEnd - address;
}

}  // namespace

CUresult HostMapping::make(Worker& worker, int file, uint64_t address, uint64_t bytes, uint8_t device,
                           std::shared_ptr<HostMapping>& made) {
    constexpr int kFlags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    if (!may_lie(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (!is_whole(file, bytes)) return CUDA_ERROR_NOT_SUPPORTED;
    if (!worker.ending_mappings.start()) return CUDA_ERROR_NOT_SUPPORTED;
    if (worker.mappings.fetch_add(1) >= VirtualMemory::kMaxMappings) {
        worker.mappings.fetch_sub(1);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    void* const wanted = reinterpret_cast<void*>(address);
    void* const found = mmap(wanted, whole_pages(bytes), PROT_READ | PROT_WRITE, kFlags, file, 0);
    if (found == MAP_FAILED) {
        worker.mappings.fetch_sub(1);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    const std::shared_ptr<HostMapping> mapping(new HostMapping(worker, found, bytes, device));
    if (found != wanted || !mapping->close_file(file)) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult error = mapping->give_to_driver()) return error;
    made = mapping;
    return CUDA_SUCCESS;
}

// From here on nobody takes pages out of the file, nor maps it once more to write there: this seal forbids
// both. So a page that is in it now is never missing here, where touching it would make one on our account.
bool HostMapping::close_file(int file) const {
    if (fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) return false;
    return lseek(file, 0, SEEK_HOLE) == static_cast<off_t>(whole_pages(bytes_));
}

CUresult HostMapping::give_to_driver() {
    constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    const Driver& driver = worker_.driver;
    if (CUresult error = invoke(driver.cuMemHostRegister_v2, memory_, static_cast<size_t>(bytes_), kFlags))
        return error == CUDA_ERROR_OUT_OF_MEMORY ? error : CUDA_ERROR_NOT_SUPPORTED;
    registered_ = true;
    CUdeviceptr there = 0;
    const CUresult result = invoke(driver.cuMemHostGetDevicePointer_v2, &there, memory_, 0u);
    const bool same = result == CUDA_SUCCESS && there == reinterpret_cast<uintptr_t>(memory_);
    return same ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

HostMapping::~HostMapping() {
    if (registered_) {
        worker_.ending_mappings.add(memory_, bytes_, device_);
    } else {
        munmap(memory_, whole_pages(bytes_));
        worker_.mappings.fetch_sub(1);
    }
}

bool EndingMappings::start() try {
    const std::lock_guard lock(mutex_);
    if (!runs_) std::thread([this] { run(); }).detach();
    runs_ = true;
    return true;
} catch (const std::system_error&) {
    return false;
}

void EndingMappings::add(void* memory, uint64_t bytes, uint8_t device) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({memory, bytes, device});
    changed_.notify_one();
}

void EndingMappings::run() {
    for (;;) {
        std::vector<Ending> all;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return !waiting_.empty(); });
            all.swap(waiting_);
        }
        for (const Ending& ending : all) end(ending);
    }
}

// What the driver does not let go of stays mapped.
void EndingMappings::end(const Ending& ending) {
    const InContext context(worker_, ending.device);
    if (invoke(worker_.driver.cuMemHostUnregister, ending.memory) != CUDA_SUCCESS) return;
    munmap(ending.memory, whole_pages(ending.bytes));
    worker_.mappings.fetch_sub(1);
}

CUresult handle_map_host(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::MapHost wanted;
    if (!payload.take(wanted) || !payload.finished()) return kMalformed;
    const wire::Descriptor file(context.session().take_passed(wanted.address));
    if (file.fd() < 0) return CUDA_ERROR_NOT_SUPPORTED;
    std::shared_ptr<HostMapping> mapping;
    if (CUresult error = HostMapping::make(context.worker(), file.fd(), wanted.address, wanted.bytes,
                                           context.device(), mapping))
        return error;
    context.worker().memory.add({.base = wanted.address,
                                 .bytes = wanted.bytes,
                                 .owner = &context.session(),
                                 .device = context.device(),
                                 .host = std::move(mapping)});
    return CUDA_SUCCESS;
}

}  // namespace worker
