"""What a framework is given when it is imported under the runtime, and that it can be taken back."""

from __future__ import annotations

import ctypes
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.remoting.startup import gpu_kernels_frameworks as frameworks
from gpu_kernels.remoting.startup.gpu_kernels_frameworks import (
    CUDA_ROOT,
    LIBRARIES,
    OF_PYTORCH,
    SET,
    SETTINGS,
    add,
    chosen_flags,
    put,
    take_back,
)

pytestmark = pytest.mark.quick

TABLE = {
    ("jaxlib", "1.0"): ["--dir={cuda_root}", "--a=0", "--b=1"],
    ("tensorflow", "2.0"): ["--dir={cuda_root}", "--b=1"],
    ("tensorflow", "3.0"): ["--c"],
}
RELEASES = [{}, *({name: version} for name, version in frameworks.flags_by_release())]
own = st.dictionaries(
    st.sampled_from([*SETTINGS, "XLA_FLAGS", "CUDA_ROOT", "HOME"]), st.sampled_from(["x", "--mine=1", ""])
)


@given(own, st.sampled_from(RELEASES), st.sampled_from([None, "/opt/cuda root"]))
def test_what_is_put_can_be_taken_back_and_the_users_own_stays(base, installed, root):
    env = base | ({CUDA_ROOT: root} if root else {})
    before = dict(env)
    put(env, installed)
    for name, value in base.items():
        assert env[name] == value or (name == "XLA_FLAGS" and env[name].endswith(f" {value}".rstrip()))
    again = dict(env)
    put(again, installed)
    assert again == env
    take_back(env)
    assert {name: value for name, value in env.items() if value} == {
        name: value for name, value in before.items() if value
    }


@given(own, st.sampled_from(RELEASES))
def test_what_is_added_for_pytorch_leaves_xlas_and_is_taken_back_with_it(base, installed):
    env = dict(base)
    put(env, installed)
    with_xla = dict(env)
    add(env, OF_PYTORCH)
    assert env == with_xla
    take_back(env)
    alone = dict(env)
    add(alone, OF_PYTORCH)
    assert alone.items() >= (OF_PYTORCH | env).items()
    take_back(alone)
    assert alone == env


@pytest.mark.parametrize(
    ("now", "left"),
    [("{} --mine=1", "--mine=1"), ("--mine=1 {}", "--mine=1"), ("--mine=1 {} -b", "--mine=1 -b")],
)
def test_flags_that_the_user_added_on_either_side_stay(now: str, left: str):
    env: dict[str, str] = {}
    put(env, {"jaxlib": "0.12.0.1"})
    env["XLA_FLAGS"] = now.format(env["XLA_FLAGS"])
    take_back(env)
    assert env == {"XLA_FLAGS": left}


def test_memory_is_taken_as_it_is_needed():
    env: dict[str, str] = {}
    put(env, {})
    assert env["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert env["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert "TF_DEVICE_MIN_SYS_MEMORY_IN_MB" not in env
    env[CUDA_ROOT] = "/r"
    put(env, {})
    assert env["TF_DEVICE_MIN_SYS_MEMORY_IN_MB"] == "64"


def test_a_tried_release_gets_its_flags_and_the_assemblers_folder():
    assert chosen_flags(TABLE, {"jaxlib": "1.0"}, "/r") == (["--dir=/r", "--a=0", "--b=1"], "")


def test_a_real_gpu_has_nvidias_assembler():
    assert chosen_flags(TABLE, {"jaxlib": "1.0"}, None) == (["--a=0", "--b=1"], "")


def test_two_frameworks_get_what_both_know():
    assert chosen_flags(TABLE, {"jaxlib": "1.0", "tensorflow": "2.0"}, None) == (["--b=1"], "")
    assert chosen_flags(TABLE, {"jaxlib": "1.0", "tensorflow": "3.0"}, "/r") == ([], "")


@pytest.mark.parametrize("installed", [{"jaxlib": "1.1"}, {"jaxlib": "1.0", "tensorflow": ""}])
def test_a_release_that_was_not_tried_gets_no_flag_and_one_line(installed):
    flags, line = chosen_flags(TABLE, installed, "/r")
    assert flags == []
    assert "\n" not in line
    assert line.endswith("Tried: jaxlib 1.0, tensorflow 2.0, tensorflow 3.0.")


@pytest.mark.parametrize("before", [{}, OF_PYTORCH])
def test_the_line_is_said_once_in_a_tree_of_processes(before, capsys):
    """By the first that imports it, whether PyTorch was imported before or not."""
    env: dict[str, str] = {}
    if before:
        add(env, before)
    put(env, {"jaxlib": "0.0"})
    add(env, OF_PYTORCH)
    put(env, {"jaxlib": "0.0"})
    assert capsys.readouterr().err.count("gpu-kernels: jaxlib 0.0: ") == 1
    assert "XLA_FLAGS" not in env


@pytest.mark.parametrize("noted", ["", "nonsense", "[]", json.dumps({"HOME": 3})])
def test_a_damaged_note_takes_nothing_with_it(noted):
    env = {SET: noted, "HOME": "/home/me"}
    take_back(env)
    assert env == {"HOME": "/home/me"}


def test_each_row_of_the_table_has_flags_alone():
    assert frameworks.flags_by_release()
    for flags in frameworks.flags_by_release().values():
        assert flags
        assert all(flag.startswith("--xla_gpu_") and "=" in flag for flag in flags)


def test_a_library_that_is_not_there_is_told_and_keeps_no_other_away(tmp_path, monkeypatch, capsys):
    ctypes.CDLL("libm.so.6")
    maps = Path("/proc/self/maps")
    libm = next(line.split()[-1] for line in maps.read_text().splitlines() if line.endswith("libm.so.6"))
    last = frameworks.OWN[-1]
    shutil.copy(libm, tmp_path / last)
    monkeypatch.setenv(LIBRARIES, str(tmp_path))
    frameworks.make_ready("torch")
    assert str(tmp_path / last) in maps.read_text()
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert frameworks.OWN[0] in told
    assert last not in told
