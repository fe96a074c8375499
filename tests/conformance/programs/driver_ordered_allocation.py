"""cuda.bindings.driver: stream-ordered allocation from a pool that may keep what was freed."""

import numpy as np
from cuda.bindings import driver


def checked(result):
    error, *values = result
    assert int(error) == 0, error
    return values[0] if len(values) == 1 else tuple(values)


checked(driver.cuInit(0))
device = checked(driver.cuDeviceGet(0))
checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device))))
pool = checked(driver.cuDeviceGetDefaultMemPool(device))
Attribute = driver.CUmemPool_attribute
keep = driver.cuuint64_t(1 << 30)
checked(driver.cuMemPoolSetAttribute(pool, Attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, keep))
stream = checked(driver.cuStreamCreate(1))
host = np.arange(1 << 16, dtype=np.int32)
for turn in range(4):
    pointer = checked(driver.cuMemAllocAsync(host.nbytes, stream))
    checked(driver.cuMemcpyHtoDAsync(pointer, host.ctypes.data, host.nbytes, stream))
    back = np.zeros_like(host)
    checked(driver.cuMemcpyDtoHAsync(back.ctypes.data, pointer, back.nbytes, stream))
    checked(driver.cuMemFreeAsync(pointer, stream))
    checked(driver.cuStreamSynchronize(stream))
    print(turn, np.array_equal(host, back))
used, kept = Attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT, Attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
print("used", int(checked(driver.cuMemPoolGetAttribute(pool, used))))
checked(driver.cuMemPoolTrimTo(pool, 0))
print("trimmed", int(checked(driver.cuMemPoolGetAttribute(pool, kept))))

# prints:
# 0 True
# 1 True
# 2 True
# 3 True
# used 0
# trimmed 0
