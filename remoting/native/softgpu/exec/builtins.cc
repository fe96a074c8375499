// Functions that the CUDA runtime provides to device code: printf, assert, malloc, free. Those of the device
// runtime are in device_runtime.cc.
#include "exec/builtins.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "exec/format.h"
#include "exec/launch.h"

namespace softgpu {

uint64_t argument(Warp* warp, const CallSite& site, size_t number, unsigned lane) {
    if (number >= site.arguments.size()) return 0;
    const Place& place = site.arguments[number];
    uint64_t bits = 0;
    const uint32_t bytes = std::min(place.bytes, 8u);
    const std::byte* from;
    if (place.local) {
        from = resolve(warp, lane, Windows::local + warp->frame->local_base + place.offset, bytes);
    } else {
        from = warp->slots + place.offset + uint64_t(lane) * (place.bytes == 8 ? 8 : 4);
    }
    if (from != nullptr) std::memcpy(&bits, from, bytes);
    return bits;
}

void give_back(Warp* warp, const CallSite& site, unsigned lane, uint64_t value) {
    if (site.returns.empty() || site.returns[0].bytes == 0) return;
    const Place& place = site.returns[0];
    const uint32_t bytes = std::min(place.bytes, 8u);
    std::byte* to = place.local
                        ? resolve(warp, lane, Windows::local + warp->frame->local_base + place.offset, bytes)
                        : warp->slots + place.offset + uint64_t(lane) * (place.bytes == 8 ? 8 : 4);
    if (to != nullptr) std::memcpy(to, &value, bytes);
}

namespace {

constexpr size_t kMaxText = 64 * 1024;  // of one printf's format

// A C string at a generic address, or its first characters; false when it leaves accessible memory before its
// end.
bool read_text(Warp* warp, unsigned lane, uint64_t address, size_t most, std::string& text) {
    for (size_t i = 0; i < most; ++i) {
        const std::byte* at = resolve(warp, lane, address + i, 1);
        if (at == nullptr) return false;
        if (*at == std::byte{0}) return true;
        text.push_back(char(*at));
    }
    return true;
}

// vprintf(format, arguments): the arguments lie in a buffer, each aligned to its size. As CUDA's, it returns
// how many there were.
const Op* print(const Op* op, Warp* warp, const CallSite& site) {
    const Launch* launch = warp->block->launch->launch;
    for (uint32_t left = warp->mask; left != 0; left &= left - 1) {
        const unsigned lane = unsigned(std::countr_zero(left));
        const uint64_t format = argument(warp, site, 0, lane);
        uint64_t at = argument(warp, site, 1, lane);
        if (format == 0) {
            give_back(warp, site, lane, uint64_t(-1));
            continue;
        }
        PrintSource source;
        source.next = [&](void* to, unsigned bytes) {
            at = (at + bytes - 1) / bytes * bytes;
            const std::byte* from = resolve(warp, lane, at, bytes);
            if (from != nullptr) std::memcpy(to, from, bytes);
            at += bytes;
            return from != nullptr;
        };
        source.text = [&](uint64_t address, size_t most, std::string& text) {
            return read_text(warp, lane, address, most, text);
        };
        std::string pattern, out;
        int arguments = 0;
        if (!read_text(warp, lane, format, kMaxText, pattern) ||
            !format_print(pattern, source, out, arguments)) {
            return fault(op, warp, Status::illegal_address, lane,
                         "printf was given an address that is out of bounds");
        }
        if (launch->print) launch->print(out);
        give_back(warp, site, lane, uint64_t(arguments));
    }
    return op + 1;
}

// A line for each of the threads, in CUDA's words.
void complain(const Warp* warp, const std::string& where, const std::string& message) {
    const auto& print = warp->block->launch->launch->complain;
    if (!print) return;
    auto three = [](uint32_t x, uint32_t y, uint32_t z) {
        return "[" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + "]";
    };
    const Dim3 size = warp->block->launch->launch->block;
    std::string lines;
    for (uint32_t left = warp->mask; left != 0; left &= left - 1) {
        const uint32_t thread = warp->index * kLanes + uint32_t(std::countr_zero(left));
        lines += where + ": block: " + three(warp->block->x, warp->block->y, warp->block->z) +
                 ", thread: " + three(thread % size.x, thread / size.x % size.y, thread / size.x / size.y) +
                 " Assertion `" + message + "` failed.\n";
    }
    print(lines);
}

// __assertfail(message, file, line, function, character size)
const Op* assertion(const Op* op, Warp* warp, const CallSite& site) {
    const unsigned lane = unsigned(std::countr_zero(warp->mask));
    std::string message, file, function;
    read_text(warp, lane, argument(warp, site, 0, lane), 1024, message);
    read_text(warp, lane, argument(warp, site, 1, lane), 1024, file);
    read_text(warp, lane, argument(warp, site, 3, lane), 256, function);
    const std::string line = std::to_string(uint32_t(argument(warp, site, 2, lane)));
    complain(warp, file + ":" + line + ": " + function, message);
    return fault(op, warp, Status::assertion, lane,
                 "assertion `" + message + "` failed in " + function + " at " + file + ":" + line);
}

// free(pointer)
const Op* release(const Op* op, Warp* warp, const CallSite& site) {
    for (uint32_t left = warp->mask; left != 0; left &= left - 1) {
        const unsigned lane = unsigned(std::countr_zero(left));
        const uint64_t address = argument(warp, site, 0, lane);
        if (address == 0 || warp->block->launch->memory->free_by_kernel(address)) continue;
        char place[32];
        std::snprintf(place, sizeof place, "0x%llx", static_cast<unsigned long long>(address));
        return fault(op, warp, Status::illegal_address, lane,
                     "free of " + std::string(place) +
                         ", which malloc or cudaMalloc in a kernel has not given, or which is free already");
    }
    return op + 1;
}

}  // namespace

const Op* call_builtin(const Op* op, Warp* warp, const CallSite& site) {
    DeviceMemory* memory = warp->block->launch->memory;
    switch (site.builtin) {
        case Builtin::print:
            return print(op, warp, site);
        case Builtin::assertion:
            return assertion(op, warp, site);
        case Builtin::allocate:
            for (uint32_t left = warp->mask; left != 0; left &= left - 1) {
                const unsigned lane = unsigned(std::countr_zero(left));
                give_back(warp, site, lane, memory->allocate_by_kernel(argument(warp, site, 0, lane), 16));
            }
            return op + 1;
        case Builtin::release:
            return release(op, warp, site);
        default:
            return call_device_runtime(op, warp, site);
    }
}

}  // namespace softgpu
