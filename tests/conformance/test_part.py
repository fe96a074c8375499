"""A part of the suites in every test run: files that are quick and together touch most of what programs use.

``make conformance`` runs all of them.
"""

from __future__ import annotations

import pytest

from . import expectations
from .places import PLACES
from .runner import Run
from .suite import numba

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


@pytest.mark.timeout(600)
def test_a_part_of_numba_cudas_tests_does_what_the_list_says() -> None:
    suite = numba()
    if suite is None:
        pytest.skip("numba-cuda is not installed")
    if suite.lacks:
        pytest.skip(f"not installed: {', '.join(suite.lacks)}")
    known = expectations.read(suite.expectations)
    with PLACES["forwarded"](2) as process:
        results = Run(suite, process, 2, files=QUICK).results()
    assert len(results) > 10 * len(QUICK) // 2
    assert known.differences(results, whole=False) == []
