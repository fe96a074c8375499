"""numba-cuda's own tests, file by file: each does what the list says.

``make test`` runs files that are quick and together touch most of what programs use; the others are marked
slow. ``make conformance`` runs all of them without pytest, and says how many pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import expectations
from .places import PLACES, Process
from .runner import Run
from .suite import Suite, numba

QUICK = (
    "cudadrv/test_cuda_memory.py",
    "cudadrv/test_streams.py",
    "cudadrv/test_events.py",
    "cudadrv/test_linker.py",
    "cudadrv/test_context_stack.py",
    "cudapy/test_laplace.py",
    "cudapy/test_matmul.py",
    "cudapy/test_cooperative_groups.py",
    "cudapy/test_sync.py",
    "doc_examples/test_reduction.py",
)
SUITE = numba()


def files() -> Iterator[object]:
    """The suite's files as parameters; the quick ones by name, so that one that is gone is missed."""
    for name in QUICK:
        yield pytest.param(name, id=name)
    for path in SUITE.files() if SUITE is not None else ():
        name = str(path.relative_to(SUITE.root))
        if name not in QUICK:
            yield pytest.param(name, id=name, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def suite() -> Suite:
    if SUITE is None:
        pytest.skip("numba-cuda is not installed")
    if SUITE.lacks:
        pytest.skip(f"not installed: {', '.join(SUITE.lacks)}")
    return SUITE


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with PLACES["forwarded"](1) as process:
        yield process


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("file", [*files()])
def test_a_file_of_numba_cudas_tests_does_what_the_list_says(
    suite: Suite, process: Process, file: str
) -> None:
    known = expectations.read(suite.expectations).of_file(file)
    results = Run(suite, process, 1, files=[file]).results()
    assert results or file not in QUICK  # others may be skipped as a whole, and some are parts of tests
    assert known.differences(results, whole=True) == []
