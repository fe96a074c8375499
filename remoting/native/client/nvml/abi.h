// The part of NVML's public ABI that is answered here, as nvidia-ml-py and NVIDIA's documentation have it.
#pragma once

#include <cstdint>

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

namespace nvml {

enum Return : int {
    kSuccess = 0,
    kUninitialized = 1,
    kInvalidArgument = 2,
    kNotSupported = 3,
    kNotFound = 6,
    kInsufficientSize = 7,
    kDriverNotLoaded = 9,
    kTimeout = 10,
    kGpuIsLost = 15,
    kVersionMismatch = 25,
    kUnknown = 999,
};

using Device = const void*;

struct Memory {
    uint64_t total;  // bytes, as everywhere in NVML
    uint64_t free;
    uint64_t used;
};

struct MemoryV2 {
    uint32_t version;
    uint64_t total;
    uint64_t reserved;
    uint64_t free;
    uint64_t used;
};
inline constexpr uint32_t kMemoryV2 = sizeof(MemoryV2) | 2u << 24;

struct Utilization {
    uint32_t gpu;  // percent
    uint32_t memory;
};

struct PciInfo {
    char bus_id_legacy[16];
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t device_id;
    uint32_t subsystem_id;
    char bus_id[32];
};

struct PciInfoV2 {  // also of version 1: it lacks the long id
    char bus_id_legacy[16];
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t device_id;
    uint32_t subsystem_id;
    uint32_t reserved[4];
};

struct ProcessV1 {
    uint32_t pid;
    uint64_t used_bytes;
};

struct ProcessV2 {
    uint32_t pid;
    uint64_t used_bytes;
    uint32_t gpu_instance;
    uint32_t compute_instance;
};

struct Uuid {
    uint32_t version;
    uint32_t type;  // 1: text
    union {
        char text[41];
        uint8_t bytes[16];
    } value;
};
inline constexpr uint32_t kUuidV1 = sizeof(Uuid) | 1u << 24;
inline constexpr uint32_t kUuidText = 1;

static_assert(sizeof(MemoryV2) == 40 && sizeof(PciInfo) == 68 && sizeof(ProcessV2) == 24);

}  // namespace nvml
