"""cuDNN of our own: results against NumPy's, straight and forwarded, and how it behaves beside them."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys

import pytest

from gpu_kernels.remoting.paths import native_build
from tests.frameworks import installed
from tests.libraries.programs import beyond, runner_of, slice_at
from tests.native_build import ROOT

LIBRARY = native_build({}).libraries / "libcudnn.so.9"
CALLS = (ROOT / "remoting/native/libraries/cudnn/calls.txt").read_text().splitlines()
ROLES = {name: role for name, *role in (line.split() for line in CALLS if not line.startswith("#"))}
BAD_PARAMETER, NOT_SUPPORTED = 2000, 3000
OUT_OF_MEMORY, ILLEGAL_ADDRESS = 2, 700
pytestmark = [pytest.mark.native, pytest.mark.timeout(600)]
run = runner_of("cudnn", 9)


def tolerance(function: str) -> float:
    """By the precision of its results."""
    if function.endswith(("double", "float64")):
        return 1e-10
    if function.endswith(("bfloat16", "uint16")):
        return 2e-2
    if function.endswith(("half", "float16")):
        return 2e-3
    return 1e-5


@pytest.mark.parametrize(
    ("group", "functions"),
    [
        ("convolution", 12),
        ("bias", 4),
        ("fused", 4),
        ("pooling", 5),
        ("layers", 15),
        ("normalisation", 18),
        ("pieces", 6),
        ("tensors", 24),
        ("graphs", 13),
        ("fused_graphs", 28),
        ("recurring", 30),
        ("dropping", 20),
        ("classification", 6),
        ("transformers", 16),
    ],
)
def test_results_are_numpys(environment, group, functions) -> None:
    """Shapes, types, layouts, strides, groups, dilations, scalars: the largest difference."""
    worst, _ = run(environment, "cudnn_results.py", group)
    assert len(worst) >= functions
    assert beyond(worst, tolerance) == {}


def test_losses_and_grids_are_pytorchs_on_the_cpu() -> None:
    try:
        python = installed.pytorch()
    except installed.NotInstalled as error:
        pytest.skip(str(error))
    with slice_at("straight") as environment:
        done = subprocess.run(
            [python, ROOT / "tests/libraries/cudnn_beside_pytorch.py", LIBRARY],
            env=environment | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    worst = json.loads(done.stdout)
    assert len(worst) == 13
    assert beyond(worst, tolerance) == {}


def test_a_convolution_that_finds_no_room_is_refused_and_others_go_on(environment) -> None:
    said, told = run(environment, "cudnn_behaviour.py", "full")
    assert said == {"status": 0, "after": OUT_OF_MEMORY, "again": 0}
    assert "cudnnConvolutionForward: it takes " in told


def test_what_does_not_go_together_is_refused(environment) -> None:
    said, _ = run(environment, "cudnn_behaviour.py", "misfits")
    assert {name: status for name, status in said.items() if status != BAD_PARAMETER} == {}
    assert len(said) == 14


def test_a_tensor_that_cannot_be_is_refused_when_it_is_described(environment) -> None:
    said, _ = run(environment, "cudnn_behaviour.py", "descriptors")
    assert set(said.values()) == {BAD_PARAMETER}


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("outside", "cudnnActivationForward: x has "),
        ("endless", "cudnnScaleTensor: y has "),
        ("foreign_workspace", "cudnnConvolutionForward: workSpace has 64 bytes at "),
        ("foreign_filter", "cudnnConvolutionBackwardFilter: dw has 432 bytes at "),
    ],
)
@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_memory_that_is_not_the_slices_is_a_fault_and_one_line_says_whose(place, what, words) -> None:
    with slice_at(place) as environment:  # a fault ends the worker
        said, told = run(environment, "cudnn_behaviour.py", what)
    assert said == {"status": 0, "after": ILLEGAL_ADDRESS}
    assert words in told


def test_what_is_not_done_is_refused_by_name(environment) -> None:
    said, told = run(environment, "cudnn_behaviour.py", "unsupported")
    assert {name: status for name, status in said.items() if status != NOT_SUPPORTED} == {}
    assert "a graph of cuDNN that is no convolution, nor one with a bias and an activation, is not" in told
    for name in (
        "cudnnScaleTensor",
        "cudnnMultiHeadAttnForward",
        "cudnnSetRNNDescriptor_v8 with a skipped input",
    ):
        assert f"{name}" in told


def test_what_a_program_asks_before_a_convolution_is_so(environment) -> None:
    said, _ = run(environment, "cudnn_behaviour.py", "queries")
    assert said.pop("far") < 1e-5
    wanted = {"count": 1, "status": 0, "memory": [0, 0], "dims": [0, True], "wrong": BAD_PARAMETER}
    assert said == wanted


def test_numbers_that_no_option_has_are_refused(environment) -> None:
    said, _ = run(environment, "cudnn_behaviour.py", "options")
    assert {name: status for name, status in said.items() if status != BAD_PARAMETER} == {}
    assert len(said) == 17


@pytest.mark.parametrize("what", ["activation", "softmax", "response", "reduction", "classification"])
def test_one_long_call_can_be_interrupted(what) -> None:
    with slice_at("forwarded") as environment:  # straight, an interrupt is the program's
        said, _ = run(environment, "cudnn_behaviour.py", f"interrupted_{what}")
    assert 0 <= said["seconds"] < 2


def test_recurrent_layers_that_do_not_go_together_are_refused(environment) -> None:
    said, _ = run(environment, "cudnn_behaviour.py", "recurrent_misfits")
    assert {name: status for name, status in said.items() if status != BAD_PARAMETER} == {}
    assert len(said) == 11


@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_memory_that_is_less_than_was_asked_for_is_refused_at_the_call(place) -> None:
    with slice_at(place) as environment:
        said, told = run(environment, "cudnn_behaviour.py", "little_rooms")
    functions = ("states", "forward", "back", "weights")
    assert said == {**dict.fromkeys(functions, BAD_PARAMETER), "after": 0}
    assert "cudnnSetDropoutDescriptor: the states have less memory than cudnnDropoutGetStatesSize" in told
    for name in ("cudnnRNNForward", "cudnnRNNBackwardData_v8", "cudnnRNNBackwardWeights_v8"):
        assert f"{name}: the reserve space has less memory than cudnnGetRNNTempSpaceSizes says" in told


@pytest.mark.parametrize("lies", ["longer", "negative", "packed"])
@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_lengths_on_the_device_are_looked_at_when_they_are_used(place, lies) -> None:
    with slice_at(place) as environment:  # a fault ends the worker
        said, told = run(environment, "cudnn_behaviour.py", f"lengths_{lies}")
    assert said == {"status": 0, "after": ILLEGAL_ADDRESS}
    assert "cudnnRNNForward: devSeqLengths has " in told


@pytest.mark.parametrize(
    ("lies", "words"),
    [
        ("label", "labels has 4, which is not from 0 to 3"),
        ("negative", "labels has -1, which is not from 0 to 3"),
        ("length", "inputLengths has 4, which is not from 0 to 3"),
        ("count", "labelLengths has 6, which is not from 0 to 5"),
        ("far", "labels has 1073741828 bytes, which are not all memory of the device"),
    ],
)
def test_lists_of_labels_are_looked_at_when_they_are_used(lies, words) -> None:
    with slice_at("straight") as environment:
        said, told = run(environment, "cudnn_behaviour.py", f"classification_{lies}")
    assert said == {"status": 0, "after": ILLEGAL_ADDRESS}
    assert f"cudnnCTCLoss_v8: {words}" in told


def test_sequences_that_do_not_go_together_are_refused(environment) -> None:
    said, _ = run(environment, "cudnn_behaviour.py", "classification_misfits")
    assert {name: status for name, status in said.items() if status != BAD_PARAMETER} == {}
    assert len(said) == 13


def test_a_recurrent_layer_holds_its_dropouts_descriptor(environment) -> None:
    assert set(run(environment, "cudnn_behaviour.py", "dropout_later")[0].values()) == {True}


def test_ten_threads_share_a_handle(environment) -> None:
    assert run(environment, "cudnn_behaviour.py", "threads")[0] == {"wrong": 0}


def test_a_captured_stream_refuses_in_words_and_works_afterwards(environment) -> None:
    said, told = run(environment, "cudnn_behaviour.py", "captured")
    assert said == {"status": NOT_SUPPORTED, "end": 901, "again": 0, "right": 1}
    assert "cuDNN in a captured stream is not supported" in told


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


@pytest.mark.parametrize(
    "create", [name for name in ROLES if name.startswith("cudnnCreate") and "Desc" in name]
)
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


def test_every_name_is_there_and_what_is_refused_is_told_by_name() -> None:
    program = f"""
import ctypes
cudnn = ctypes.CDLL({str(LIBRARY)!r})
names = {list(ROLES)!r}
assert all(hasattr(cudnn, name) for name in names)
assert [cudnn.cudnnMultiHeadAttnForward() for _ in range(2)] == [{NOT_SUPPORTED}] * 2
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(
        "gpu-kernels: cudnnMultiHeadAttnForward is not supported and returns CUDNN_STATUS_NOT_SUPPORTED. "
    )
    assert len(ROLES) > 240


def test_loading_it_by_its_path_gives_it_to_who_asks_by_name() -> None:
    program = (
        f"import ctypes; ctypes.CDLL({str(LIBRARY)!r}); print(ctypes.CDLL('libcudnn.so.9').cudnnGetVersion())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "92800\n", done.stderr
