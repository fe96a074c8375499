"""Out of memory leaves a program alive; an illegal address ends its use of the GPU, not the process."""

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

cuda.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0


@cuda.jit
def write(a, i):
    a[i] = 1


def refused(call) -> str:
    try:
        call()
    except CudaAPIError as error:
        return str(error)
    raise AssertionError("no error")


free, total = cuda.current_context().get_memory_info()
array = cuda.to_device(np.zeros(8, np.float32))
assert "OUT_OF_MEMORY" in refused(lambda: cuda.device_array(total + 1, np.uint8))
write[1, 1](array, 3)
assert array.copy_to_host()[3] == 1

write[1, 1](array, 1 << 30)
for _ in range(2):
    assert "ILLEGAL_ADDRESS" in refused(cuda.synchronize)
print("right")
