"""cuda.core: what a device says of itself, and what a kernel does."""

from cuda.core import Device, Program, ProgramOptions

device = Device()
device.set_current()
properties = device.properties
print("compute capability", device.compute_capability, device.arch)
print("warp", properties.warp_size, "block", properties.max_threads_per_block)
print("grid", properties.max_grid_dim_x, properties.max_grid_dim_y, properties.max_grid_dim_z)
print("pools", properties.memory_pools_supported, "unified", properties.unified_addressing)
print("uuid", len(device.uuid), "devices", len(Device.get_all_devices()) > 0)

CODE = """
extern "C" __global__ void __launch_bounds__(256) sum(float* out) {
    __shared__ float part[256];
    part[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) for (int i = 0; i < 256; ++i) out[0] += part[i];
}
"""
options = ProgramOptions(arch=f"compute_{device.arch}")
kernel = Program(CODE, code_type="c++", options=options).compile("ptx").get_kernel("sum")
attributes = kernel.attributes
print("shared", attributes.shared_size_bytes, "threads", attributes.max_threads_per_block)
print("resident", kernel.occupancy.max_active_blocks_per_multiprocessor(256, 0) > 0)
print("parameters", [(info.offset, info.size) for info in kernel.arguments_info])

# prints:
# compute capability ComputeCapability(major=7, minor=5) 75
# warp 32 block 1024
# grid 2147483647 65535 65535
# pools True unified True
# uuid 36 devices True
# shared 1024 threads 256
# resident True
# parameters [(0, 8)]
