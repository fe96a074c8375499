"""cuda.core: memory resources for the device and the host, and copies between their buffers."""

import numpy as np
from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions, LegacyPinnedMemoryResource

device = Device()
device.set_current()
stream = device.create_stream()
pool = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20))
pinned = LegacyPinnedMemoryResource()
source = pinned.allocate(4096)
target = pinned.allocate(4096)
numbers = np.from_dlpack(source).view(np.uint32)
numbers[:] = np.arange(1024)
there = pool.allocate(4096, stream=stream)
source.copy_to(there, stream=stream)
target.copy_from(there, stream=stream)
stream.sync()
print("copied", np.array_equal(np.from_dlpack(target).view(np.uint32), numbers))
there.fill(b"\x07", stream=stream)
target.copy_from(there, stream=stream)
stream.sync()
print("filled", np.unique(np.from_dlpack(target).view(np.uint8)))
print("device", there.is_device_accessible, there.is_host_accessible, there.size)
print("pinned", source.is_device_accessible, source.is_host_accessible)
try:
    pool.allocate(2 << 20, stream=stream)
    print("it fitted")
except Exception as error:
    print("too much:", "CUDA_ERROR_OUT_OF_MEMORY" in str(error))
there.close(stream)
stream.sync()
print("in use", pool.attributes.used_mem_current)

# prints:
# copied True
# filled [7]
# device True False 4096
# pinned True True
# too much: True
# in use 0
