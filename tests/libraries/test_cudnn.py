"""libcudnn.so.9 of our own: loadable, every name there, and what is not done refused by name."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from remoting.paths import native_build
from tests.native_build import ROOT

LIBRARY = native_build({}).libraries / "libcudnn.so.9"
CALLS = (ROOT / "remoting/native/libraries/cudnn/calls.txt").read_text().splitlines()
ROLES = {name: role for name, *role in (line.split() for line in CALLS if not line.startswith("#"))}
NOT_SUPPORTED = 3000
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def cudnn() -> ctypes.CDLL:
    return ctypes.CDLL(str(LIBRARY))


def test_a_handle_keeps_its_stream(cudnn) -> None:
    handle, stream = ctypes.c_void_p(), ctypes.c_void_p()
    assert cudnn.cudnnCreate(ctypes.byref(handle)) == 0
    assert cudnn.cudnnSetStream(handle, ctypes.c_void_p(4711)) == 0
    assert cudnn.cudnnGetStream(handle, ctypes.byref(stream)) == 0
    assert stream.value == 4711
    assert cudnn.cudnnDestroy(handle) == 0


@pytest.mark.parametrize("create", [name for name, role in ROLES.items() if role == ["create"]])
def test_a_descriptor_can_be_made_and_ended(cudnn, create) -> None:
    descriptor = ctypes.c_void_p()
    assert getattr(cudnn, create)(ctypes.byref(descriptor)) == 0
    assert descriptor.value
    assert getattr(cudnn, create.replace("Create", "Destroy"))(descriptor) == 0
    assert getattr(cudnn, create)(None) != 0


def test_a_descriptor_is_filled_in(cudnn) -> None:
    descriptor = ctypes.c_void_p()
    assert cudnn.cudnnCreateTensorDescriptor(ctypes.byref(descriptor)) == 0
    assert cudnn.cudnnSetTensor4dDescriptor(descriptor, 0, 0, 1, 2, 3, 4) == 0
    assert cudnn.cudnnSetTensor4dDescriptor(None, 0, 0, 1, 2, 3, 4) != 0
    assert cudnn.cudnnDestroyTensorDescriptor(descriptor) == 0


@pytest.mark.parametrize("call", ["cudnnCreate", "cudnnSetStream", "cudnnGetStream", "cudnnGetProperty"])
def test_nothing_is_written_to_nowhere(cudnn, call) -> None:
    assert getattr(cudnn, call)(None, None) != 0


def test_the_version_is_the_lists(cudnn) -> None:
    parts = [ctypes.c_int() for _ in range(3)]
    for number, part in enumerate(parts):
        assert cudnn.cudnnGetProperty(number, ctypes.byref(part)) == 0
    major, minor, patch = (part.value for part in parts)
    assert cudnn.cudnnGetVersion() == major * 10000 + minor * 100 + patch == 92800
    assert cudnn.cudnnGetProperty(3, ctypes.byref(parts[0])) != 0


@pytest.mark.parametrize("room", [0, 1, 10, 1000])
def test_the_last_error_fits_the_room_that_it_is_given(cudnn, room) -> None:
    text = ctypes.create_string_buffer(b"x" * 1001)
    cudnn.cudnnGetLastErrorString(text, ctypes.c_size_t(room))
    assert len(text.raw[:room].split(b"\0")[0]) == min(max(room - 1, 0), len(text.value)) or room == 0
    assert set(text.raw[room:-1]) == {ord("x")}


def test_every_name_is_there_and_the_first_that_is_refused_is_told() -> None:
    program = f"""
import ctypes
cudnn = ctypes.CDLL({str(LIBRARY)!r})
names = {list(ROLES)!r}
assert all(hasattr(cudnn, name) for name in names)
assert [cudnn.cudnnConvolutionForward(), cudnn.cudnnBackendCreateDescriptor()] == [{NOT_SUPPORTED}] * 2
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("gpu-kernels: cudnnConvolutionForward returns CUDNN_STATUS_NOT_SUPPORTED. ")
    assert len(ROLES) > 240


def test_loading_it_by_its_path_gives_it_to_who_asks_by_name() -> None:
    program = (
        f"import ctypes; ctypes.CDLL({str(LIBRARY)!r}); print(ctypes.CDLL('libcudnn.so.9').cudnnGetVersion())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "92800\n", done.stderr
