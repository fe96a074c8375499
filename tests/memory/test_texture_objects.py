"""Texture and surface objects: the same straight and forwarded."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import numpy as np

from tests.both_ways import BothWays, Process, both_ways, environments
from tests.native_build import Build
from tests.softgpu.driver import raw

from .array_cases import Shape
from .conftest import MEMORY_MIB
from .test_box_copies import contents

BAD, GONE = raw.INVALID_VALUE, raw.INVALID_HANDLE
PLANE: Shape = (20, 7, 0, 32, 1, 0)


def floats(count: int) -> bytes:
    return np.arange(count, dtype=np.float32).tobytes()


def test_a_kernel_samples_an_array_by_the_value_that_the_program_has(both: BothWays) -> None:
    data = floats(140)
    assert both.run("array_is_sampled", PLANE, data) == (data, (0, 1, 0), [BAD, raw.SUCCESS, BAD])


def test_a_level_is_sampled_by_itself(both: BothWays) -> None:
    data = floats(30)
    assert both.run("level_is_sampled", (20, 6, 0, 32, 1, 0), data) == data


def test_linear_memory_is_fetched(both: BothWays) -> None:
    data = contents(3, 512)
    assert both.run("memory_is_fetched", data) == data


def test_a_kernel_writes_a_surface_and_a_copy_reads_it(both: BothWays) -> None:
    after, codes = both.run("surface_is_written", 9, 5)
    assert after == struct.pack("<45I", *(100 * y + x for y in range(5) for x in range(9)))
    assert codes == [raw.SUCCESS, 0, raw.SUCCESS, BAD]


def test_a_captured_kernel_samples_what_the_copy_before_it_has_brought(both: BothWays) -> None:
    data = floats(140)
    assert both.run("graph_samples", PLANE, data) == data


def test_what_no_object_can_be_of_is_refused(both: BothWays) -> None:
    codes = both.run("refused_objects")
    assert codes[:3] == [GONE] * 3
    assert codes[3:] == [BAD] * 14


def test_an_object_is_of_its_contexts_device(native: Build, tmp_path: Path) -> None:
    with both_ways(native, tmp_path, (32, 32), ("tests.memory.texture_cases",)) as processes:
        assert processes.run("of_another_device", PLANE) == [BAD] * 6 + [raw.SUCCESS] * 6


def test_a_context_takes_its_textures_along(both: BothWays) -> None:
    assert both.run("a_context_takes_its_textures_along", PLANE) == ([BAD], True)


def test_a_programs_textures_end_with_it(both: BothWays, native: Build, tmp_path: Path) -> None:
    before = both.forwarded.run("free_bytes")
    forwarded = environments(both.agent, native, (MEMORY_MIB,))[1]
    leaving = Process(forwarded, tmp_path / "log", "tests.memory.texture_cases")
    assert leaving.run("leave_textures", (1024, 512, 0, 32, 1, 0)) < before
    leaving.end()
    end = time.monotonic() + 60
    while both.forwarded.run("free_bytes") != before:
        assert time.monotonic() < end
        time.sleep(0.05)
