"""How a run of NVIDIA's samples reads what it finds; the samples themselves are not here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .runner import Result
from .samples import __main__ as command
from .samples.__main__ import disagreements, outcome
from .samples.sample import samples

DESCRIBED = """
project(vectorAddDrv LANGUAGES C CXX CUDA)
add_executable(vectorAddDrv vectorAddDrv.cpp ../../../Common/helper.cpp)
target_link_libraries(vectorAddDrv PUBLIC CUDA::cuda_driver CUDA::nvrtc)
set(CUDA_FATBIN_FILE "${CMAKE_CURRENT_BINARY_DIR}/vectorAdd_kernel64.fatbin")
set(CUDA_KERNEL_SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/vectorAdd_kernel.cu")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in (("vectorAddDrv", DESCRIBED), ("fluidsGL", DESCRIBED + "find_package(OpenGL)")):
        folder = tmp_path / "Samples" / "0_Introduction" / name
        folder.mkdir(parents=True)
        (folder / "CMakeLists.txt").write_text(text)
    return tmp_path


def test_a_sample_is_built_of_what_its_description_names(root: Path) -> None:
    (sample,) = samples(root)
    assert sample.name == "vectorAddDrv"
    assert [path.name for path in sample.sources] == ["vectorAddDrv.cpp", "helper.cpp"]
    assert sample.libraries == ["cuda_driver", "nvrtc"]
    assert list(sample.images) == [("vectorAdd_kernel64.fatbin", "-fatbin")]
    assert sample.image_source == sample.folder / "vectorAdd_kernel.cu"


@pytest.mark.parametrize(
    ("status", "said", "ended"),
    [
        (0, "Test passed", "passed"),
        (0, "errors: 0, failed: 0", "passed"),
        (0, "Result = FAIL", "failed"),
        (1, "", "failed"),
        (2, "waived: needs two GPUs", "skipped"),
        (-11, "Test passed", "died"),
        (0, "gpu-kernels: cuIpcGetMemHandle is not supported and returns 801.\nDone!", "refused"),
    ],
)
def test_how_a_run_is_said_to_have_ended(status: int, said: str, ended: str) -> None:
    assert outcome(status, said) == ended


def test_another_commit_than_the_lists_is_not_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "compiler_is_here", lambda: True)
    git = ["git", "-C", root, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    here = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert command.not_ready(root, here) is None
    assert "the list is for 0123" in str(command.not_ready(root, "0123"))
    assert "check out 0123" in str(command.not_ready(root / "nothing", "0123"))


def test_a_sample_that_ends_otherwise_forwarded_counts(capsys: pytest.CaptureFixture[str]) -> None:
    taken = {
        "straight": {name: Result(name, "passed", "", 1.0) for name in ("scan", "clock")},
        "forwarded": {"scan": Result("scan", "passed", "", 2.0), "clock": Result("clock", "hung", "", 120.0)},
    }
    assert disagreements(taken) == 1
    said = capsys.readouterr().out
    assert "clock: passed straight, hung forwarded" in said
    assert "1 pass in both; forwarded over straight 2.00 times" in said
