// Reads the agent's answer to a status query: a JSON list of flat objects, at most 4096 bytes of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nvml {

// One slice, which is the whole device to its user.
struct Slice {
    std::string name;
    std::string uuid;
    std::string device;  // "software" or "nvidia"
    std::string driver_version;
    std::string compute_capability;  // "7.5"; empty where the agent does not know
    std::string pci_bus_id;          // "00000000:3B:00.0"; empty where there is none
    uint64_t total_mib = 0;
    uint64_t used_mib = 0;
    uint32_t utilisation = 0;   // percent
    uint32_t cuda_version = 0;  // as NVML has it, 13000 for 13.0; 0 where the agent does not know
};

// False for anything that is not such a list; unknown fields, also nested ones, are passed over.
bool parse_slices(std::string_view text, std::vector<Slice>& slices);

}  // namespace nvml
