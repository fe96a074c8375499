// Occupancy: how many blocks of a kernel a multiprocessor has room for, as NVIDIA's calculator has it. One
// source for the client, which knows a server's GPU by its attributes, and for the software GPU: both must
// give one answer for one device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda_abi.h"

namespace cuda {

struct Multiprocessor {
    int major = 0, minor = 0;  // compute capability
    int threads = 0, blocks = 0, block_threads = 0;
    int registers = 0, block_registers = 0;
    int shared = 0, reserved_shared = 0;  // bytes; of each block so many are not the program's

    // Registers are given to warps in each part of a multiprocessor by itself, in units.
    static constexpr int kRegisterUnit = 256;
    int parts() const { return major == 6 && minor == 0 ? 2 : 4; }
    int shared_unit() const { return major < 8 ? 256 : 128; }
};

// `is(attribute)` says what the device's attribute is.
template <class Is>
Multiprocessor multiprocessor(Is is) {
    return {.major = is(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            .minor = is(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            .threads = is(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
            .blocks = is(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
            .block_threads = is(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
            .registers = is(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
            .block_registers = is(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
            .shared = is(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            .reserved_shared = is(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)};
}

struct KernelNeeds {
    int threads = 0;    // that a block can have at most
    int registers = 0;  // a thread's; 0 where nobody knows
    int static_shared = 0, most_dynamic_shared = 0;
};

constexpr int kWarpThreads = 32;
constexpr int kMostRegisters = 1 << 16;  // of a thread; whatever a server says

inline int round_up(int value, int to) {
    return (value + to - 1) / to * to;
}

inline int blocks_by_registers(const Multiprocessor& machine, const KernelNeeds& kernel, int warps) {
    const int each = std::min(kernel.registers, kMostRegisters);
    const int a_warp = round_up(each * kWarpThreads, Multiprocessor::kRegisterUnit);
    const int64_t a_block = int64_t{a_warp} * round_up(warps, machine.parts());
    if (a_block > std::min(machine.registers, machine.block_registers)) return 0;
    return machine.registers / machine.parts() / a_warp * machine.parts() / warps;
}

// What of threads, blocks, registers and shared memory runs out first says how many.
inline int blocks_at_once(const Multiprocessor& machine, const KernelNeeds& kernel, int block,
                          size_t dynamic_shared) {
    if (block <= 0 || block > std::min(machine.block_threads, kernel.threads)) return 0;
    const int warps = round_up(block, kWarpThreads) / kWarpThreads;
    int blocks = machine.threads / (warps * kWarpThreads);
    if (machine.blocks > 0) blocks = std::min(blocks, machine.blocks);
    if (kernel.registers > 0) blocks = std::min(blocks, blocks_by_registers(machine, kernel, warps));
    const auto all = static_cast<size_t>(std::max(0, machine.shared)),
               unit = static_cast<size_t>(machine.shared_unit());
    const auto fixed = static_cast<size_t>(std::max(0, kernel.static_shared)) +
                       static_cast<size_t>(std::max(0, machine.reserved_shared));
    if (fixed > all || dynamic_shared > all - fixed) return 0;
    const size_t shared = (fixed + dynamic_shared + unit - 1) / unit * unit;
    if (shared > 0) blocks = static_cast<int>(std::min<size_t>(static_cast<size_t>(blocks), all / shared));
    return std::max(0, blocks);
}

// What each of so many blocks may have of dynamic shared memory; -1 where they do not fit without any.
inline int64_t dynamic_shared_for(const Multiprocessor& machine, const KernelNeeds& kernel, int blocks,
                                  int block) {
    if (blocks <= 0 || blocks_at_once(machine, kernel, block, 0) < blocks) return -1;
    const int each = machine.shared / blocks / machine.shared_unit() * machine.shared_unit();
    const int fixed = std::max(0, kernel.static_shared) + std::max(0, machine.reserved_shared);
    return std::clamp(each - fixed, 0, std::max(0, kernel.most_dynamic_shared));
}

struct BlockChoice {
    int threads = 0, blocks = 0;  // of a block; of a multiprocessor
};

// The block with which most threads are active, of equal ones the largest. `shared_of(threads)` says what a
// block of so many needs of dynamic shared memory.
template <class SharedOf>
BlockChoice best_block(const Multiprocessor& machine, const KernelNeeds& kernel, int limit,
                       SharedOf shared_of) {
    const int most = std::min(machine.block_threads, kernel.threads);
    limit = limit > 0 ? std::min(limit, most) : most;
    BlockChoice best;
    for (int threads = round_up(limit, kWarpThreads); threads > 0; threads -= kWarpThreads) {
        const int size = std::min(threads, limit);
        const int blocks = blocks_at_once(machine, kernel, size, shared_of(size));
        if (blocks * size > best.blocks * best.threads) best = {size, blocks};
    }
    return best;
}

}  // namespace cuda
