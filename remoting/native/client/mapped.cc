#include "mapped.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <string>

#include "calls_wire.h"
#include "copies_back.h"
#include "graph_replay.h"
#include "host_files.h"
#include "log.h"
#include "session.h"
#include "shared_memory.h"
#include "virtual_memory.h"

namespace client {
namespace {

constexpr uint64_t kUnit = 2u << 20;  // what drivers map memory in
constexpr uint64_t kFirst = wire::kPinnedFirst, kEnd = wire::kPinnedEnd;
constexpr uint64_t kPage = wire::kFilePage;
constexpr uint64_t kWindow = 1ull << 40;
constexpr int kTries = 16;

struct Window {
    std::atomic<uint64_t> base{0};  // 0: nothing has been pinned
    std::mutex mutex;
    uint64_t next = 0;  // offset
};

Window& window() {
    static auto* made = new Window;
    return *made;
}

bool in_window(uint64_t address) {
    const uint64_t base = window().base.load(std::memory_order_relaxed);
    return base != 0 && address - base < kWindow;
}

uint64_t round_up(uint64_t bytes, uint64_t unit = kUnit) {
    return (bytes + unit - 1) / unit * unit;
}

// The worker maps the same pages there, where it is on this host.
CUresult share(Call& call, Memory& known) {
    const wire::MapHost message{known.base, known.bytes};
    if (!HostFiles::get().pass(known.base)) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult result = call.ask(wire::kOpMapHost, 0, &message, sizeof message, nullptr, 0);
    known.in_place = result == CUDA_SUCCESS;
    return result;
}

CUresult ordinary_twin(Call& call, Memory& known) {
    wire::AllocateHead head{};
    head.bytes = known.bytes;
    wire::Allocated answer{};
    if (CUresult error = call.ask(wire::kOpAllocate, 0, &head, sizeof head, &answer, sizeof answer)) {
        return error;
    }
    known.device_address = answer.address;
    return CUDA_SUCCESS;
}

// Of the threads that look for a place for memory.
std::mutex& one_at_a_time() {
    static auto* made = new std::mutex;
    return *made;
}

// What the map has of it now.
CUresult look_again(Memory& known) {
    const auto now = MemoryMap::get().find(known.base);
    if (!now || now->base != known.base) return CUDA_ERROR_INVALID_VALUE;
    known = *now;
    return CUDA_SUCCESS;
}

// In place what is under way to the host's side lands in the same pages: nothing waits for it, which the
// program itself may have to let go on.
CUresult place_in_place(Call& call, Memory& known) {
    const std::lock_guard lock(one_at_a_time());
    if (CUresult error = look_again(known)) return error;
    if (known.device_address) return CUDA_SUCCESS;
    if (!in_window(known.base)) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult error = share(call, known)) return error;
    known.device_address = known.base;
    MemoryMap::get().set_twin(known);
    return CUDA_SUCCESS;
}

// Memory of the device beside the host's.
CUresult place_beside(Call& call, Memory& known) {
    const std::lock_guard lock(one_at_a_time());
    if (CUresult error = look_again(known)) return error;
    if (known.device_address) return CUDA_SUCCESS;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (in_window(known.base)) {
        result = place_memory(call, known.base, round_up(known.bytes), known.bytes, known.physical);
        if (result == CUDA_SUCCESS) known.device_address = known.base;
    }
    if (result == CUDA_ERROR_NOT_SUPPORTED) result = ordinary_twin(call, known);
    if (result != CUDA_SUCCESS) return result;
    MemoryMap::get().set_twin(known);
    SharedMemory::get().add(reinterpret_cast<void*>(known.base), known.device_address, known.bytes,
                            call.device(), SharedMemory::Host::works_beside);
    return CUDA_SUCCESS;
}

}  // namespace

void* map_pinned(uint64_t bytes) {
    Window& all = window();
    const std::lock_guard lock(all.mutex);
    if (all.base.load() == 0) {
        std::random_device random;
        const uint64_t places = (kEnd - kFirst - kWindow) / kUnit;
        all.base = kFirst + (uint64_t{random()} << 32 | random()) % places * kUnit;
    }
    constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef __SANITIZE_THREAD__
    constexpr int kTries = 0;  // it accepts mappings in its own ranges only
#endif
    const bool in_window = kTries > 0 && bytes > 0 && bytes <= kWindow / 2;
    const int file = in_window ? HostFiles::get().make(round_up(bytes, kPage)) : -1;
    const int kind = file < 0 ? kOwn : MAP_SHARED;
    for (int i = 0; i < kTries && in_window; ++i) {
        if (all.next + round_up(bytes) > kWindow) all.next = 0;
        const uint64_t at = all.next;
        void* wanted = reinterpret_cast<void*>(all.base + at);
        // A unit stays free behind each: what runs over an end meets nothing.
        all.next += round_up(bytes) + kUnit;
        void* found = mmap(wanted, bytes, PROT_READ | PROT_WRITE, kind | MAP_FIXED_NOREPLACE, file, 0);
        if (found == wanted) {
            if (file >= 0) HostFiles::get().keep(all.base + at, round_up(bytes, kPage), file);
            return found;
        }
        if (found != MAP_FAILED) munmap(found, bytes);
    }
    if (file >= 0) close(file);
    void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kOwn, -1, 0);
    return found == MAP_FAILED ? nullptr : found;
}

void unmap_pinned(void* memory, uint64_t bytes) {
    HostFiles::get().drop(reinterpret_cast<uint64_t>(memory));
    munmap(memory, bytes);
}

CUresult give_twin(Call& call, Memory& known) {
    if (known.device_address == 0) {
        const HostRange range{known.base, known.bytes};
        if (CUresult error = GraphOutputs::get().settle(call, {&range, 1})) return error;
    }
    const CUresult result = place_in_place(call, known);
    if (result != CUDA_ERROR_NOT_SUPPORTED) return result;
    CopiesBack::get().settle(known.base, known.bytes);  // they go to the host's side
    return place_beside(call, known);
}

void drop_twin(const Memory& memory) {
    if (!memory.device_address) return;
    SharedMemory::get().remove(reinterpret_cast<void*>(memory.base));
    Call call;
    if (call.begin_without_context() != CUDA_SUCCESS) return;
    call.use_device(memory.device);
    if (memory.physical) {
        take_memory_away(call, memory.base, round_up(memory.bytes), memory.physical);
    } else {
        const wire::cuMemFree_v2_message message{memory.device_address};
        call.post(wire::kOp_cuMemFree_v2, 0, &message, sizeof message);
    }
}

CUresult reach_parameters(Call& call, const std::byte* parameters, size_t bytes) {
    if (window().base.load(std::memory_order_relaxed) == 0) return CUDA_SUCCESS;
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t value;
        std::memcpy(&value, parameters + at, sizeof value);
        if (!in_window(value)) continue;
        auto memory = MemoryMap::get().find(value);
        if (!memory || memory->kind != Memory::Kind::pinned || memory->device_address) continue;
        if (CUresult error = give_twin(call, *memory)) return error;
        if (memory->device_address == memory->base) continue;
        tell_user(
            "A kernel was given the address of pinned host memory, and the GPU server cannot put memory "
            "there; give the kernel what cuMemHostGetDevicePointer (cudaHostGetDevicePointer) returns.");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult Call::reach(uint64_t& address, uint64_t bytes) {
    if (bytes == 0 || MemoryMap::get().on_device(address, bytes)) return CUDA_SUCCESS;
    auto memory = MemoryMap::get().find(address);
    if (!memory || memory->kind != Memory::Kind::pinned) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t offset = address - memory->base;
    if (bytes > memory->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = give_twin(*this, *memory)) return error;
    address = memory->device_address + offset;
    return CUDA_SUCCESS;
}

}  // namespace client
