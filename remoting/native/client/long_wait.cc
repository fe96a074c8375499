#include "long_wait.h"

#include <cstdio>
#include <string>

#include "log.h"
#include "memory_map.h"
#include "shared_memory.h"

namespace client {
namespace {

// A wait that has lasted so long, and each time as long again.
constexpr int kLongSeconds = 10;
constexpr int kTurns = kLongSeconds * 1'000'000 / wire::kLongWaitMicroseconds;

std::string text_of(const void* host) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", host);
    return text;
}

const char* kind_of(const Memory& memory) {
    if (memory.kind == Memory::Kind::managed) return "managed memory";
    return memory.registered ? "registered host memory" : "pinned host memory";
}

void tell_of(const SharedMemory::Unsent& change) {
    const auto memory = MemoryMap::get().find(reinterpret_cast<uint64_t>(change.host));
    tell_user(
        "a wait for the GPU has lasted " + std::to_string(kLongSeconds) +
        " s, and since the kernels were launched the program has changed " +
        (memory ? kind_of(*memory) : "memory") + " that they can use: " + text_of(change.host) + ", " +
        std::to_string(change.bytes) + " bytes, from byte " + std::to_string(change.first) +
        " on. This GPU has its own copy of that memory, and a kernel that runs does not see the change: "
        "one that waits for it never ends. Interrupt it, and run on one host with the GPU, or change "
        "the memory between launches. If your kernel only takes long, all is well.");
}

}  // namespace

void LongWait::goes_on() {
    interrupts_.goes_on();
    if (++turns_ % kTurns != 0 || !for_work_) return;
    for (const SharedMemory::Unsent& change : SharedMemory::get().unsent(device_)) tell_of(change);
}

void LongWait::over() {
    turns_ = 0;
    interrupts_.over();
}

}  // namespace client
