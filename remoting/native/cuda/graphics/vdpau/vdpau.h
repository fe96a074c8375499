/* The types that NVIDIA's cudaVDPAU.h takes from VDPAU: its functions are there, by name, and refuse. */
#pragma once
#include <stdint.h>
typedef uint32_t VdpDevice, VdpOutputSurface, VdpVideoSurface;
typedef int VdpStatus;
typedef VdpStatus VdpGetProcAddress(VdpDevice device, uint32_t function_id, void** function_pointer);
