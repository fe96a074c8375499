"""Two frameworks in one process, and with them CUDA 12's and 13's libraries; all three where there is the
environment of ``make frameworks-all``, or one that GPU_KERNELS_ALL_PYTHON names.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conformance.places import PLACES
from tests.frameworks import installed, slim
from tests.native_build import ROOT

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(1800)]

PROGRAM = Path(__file__).parent / "program.py"
ON_A_GPU = {"torch": "cuda", "tensorflow": "GPU", "jax": "gpu"}
PLACE = ("straight", "forwarded")


def fit(python: str, place: str, names: Sequence[str]) -> None:
    """Each framework fits the line 3x + 1 on its GPU, a step of each in turn."""
    with PLACES[place](1) as process, process() as environment:
        done = subprocess.run(
            [python, str(PROGRAM), *names], env=environment, capture_output=True, text=True, timeout=900
        )
    assert done.returncode == 0, done.stderr[-4000:]
    fitted = json.loads(done.stdout.splitlines()[-1])
    assert list(fitted) == list(names)
    for name, (slope, offset, where) in fitted.items():
        assert (slope, offset) == (pytest.approx(3, abs=0.01), pytest.approx(1, abs=0.01)), name
        assert where == ON_A_GPU[name]


@pytest.fixture(scope="module")
def two() -> Iterator[str]:
    """An environment with PyTorch (CUDA 13) and TensorFlow (CUDA 12), of those of ``make frameworks``."""
    found = "from importlib.util import find_spec; assert find_spec('tensorflow')"
    try:
        pytorch = installed.pytorch()
        tensorflow = installed.python_with("tensorflow", "GPU_KERNELS_TENSORFLOW_PYTHON", found)
    except installed.NotInstalled as error:
        pytest.skip(str(error))
    theirs = slim.packages_of(tensorflow)
    with slim.environment_of(tensorflow, theirs) as python:
        slim.link(pytorch, [name for name in slim.packages_of(pytorch) if name not in theirs], python)
        project = next((ROOT / ".venv" / "lib").glob("python3*")) / "site-packages"
        Path(slim.site_of(python), "project.pth").write_text(
            f"import site; site.addsitedir({str(project)!r})\n"
        )
        yield python


@pytest.mark.parametrize("place", PLACE)
@pytest.mark.parametrize("names", [("torch", "tensorflow"), ("tensorflow", "torch")], ids="-".join)
def test_pytorch_and_tensorflow_train_in_one_process(two: str, names: tuple[str, str], place: str) -> None:
    fit(two, place, names)


def test_the_pins_of_all_three_are_those_of_each_and_none_of_nvidias() -> None:
    def wanted(name: str) -> set[str]:
        text = (ROOT / "requirements" / f"frameworks-{name}.in").read_text(encoding="utf-8")
        return set(re.findall(r"^(torch|tensorflow|jax)(?:\[.*\])?==(.*)$", text, re.M))

    pins = (ROOT / "requirements" / "frameworks-all.txt").read_text(encoding="utf-8")
    assert wanted("all") == wanted("pytorch") | wanted("tensorflow") | wanted("jax")
    assert wanted("all") <= set(re.findall(r"^([a-z0-9-]+)==([^ ]+)", pins, re.M))
    assert re.findall(r"^(nvidia-[a-z0-9-]+)==", pins, re.M) == ["nvidia-cuda-nvrtc"]


@pytest.mark.parametrize("place", PLACE)
@pytest.mark.parametrize(
    "names", [("torch", "jax", "tensorflow"), ("tensorflow", "jax", "torch")], ids="-".join
)
def test_all_three_train_in_one_process(names: tuple[str, ...], place: str) -> None:
    found = f"from importlib.util import find_spec; assert all(map(find_spec, {list(ON_A_GPU)}))"
    try:
        python = installed.python_with("all", "GPU_KERNELS_ALL_PYTHON", found)
    except installed.NotInstalled as error:
        pytest.skip(str(error))
    fit(python, place, names)
