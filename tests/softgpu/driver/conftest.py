from __future__ import annotations

from collections.abc import Iterator

import pytest

from .raw import LIBRARY, Cuda

MEMORY_MIB = 256


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "softgpu/driver" in str(item.path):
            item.add_marker(pytest.mark.native)


@pytest.fixture(scope="session")
def library() -> Cuda:
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not built")
    cuda = Cuda()
    with pytest.MonkeyPatch.context() as environment:  # read once, by the first cuInit
        environment.setenv("GPU_KERNELS_SOFTGPU_MEMORY_MIB", str(MEMORY_MIB))
        environment.setenv("GPU_KERNELS_SOFTGPU_NAME", "V100")
        cuda.cuInit(0)
    return cuda


@pytest.fixture
def cuda(library: Cuda) -> Iterator[Cuda]:
    """The driver with a context of the test's own, which ends with it whatever the test did to it."""
    context = library.new("cuCtxCreate_v2", 0, 0)
    yield library
    library.code("cuCtxDestroy_v2", context)
