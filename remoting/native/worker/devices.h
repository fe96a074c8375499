// The lease's GPUs: opened once, one context each, and described once for all clients.
#pragma once

#include <string>
#include <vector>

#include "driver.h"
#include "options.h"
#include "protocol.h"

namespace worker {

struct Device {
    CUdevice handle = 0;
    CUcontext context = nullptr;
    CUmemoryPool pool = nullptr;  // the default one; null when the driver has none
    wire::DeviceSnapshot snapshot{};
};

// Finds each slice's GPU by its UUID, makes its context and takes the snapshot. A driver that does not know a
// UUID serves by position only if it shows exactly the lease's number of devices, as the software GPU does:
// another person's GPU must never be taken for ours.
bool open_devices(const Driver& driver, const Options& options, std::vector<Device>& devices,
                  std::string& error);

}  // namespace worker
