"""Who asks for an export table is told why he gets none, in one line, by what he is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Way

# Asks as a static runtime does: several tables, from within the object.
ASKING = """
#include <dlfcn.h>
int ask(void) {
    int (*get)(const void **, const void *) = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetExportTable");
    const void *table = "not touched";
    const char id[16] = {0};
    int result = 0;
    for (int i = 0; i < 3; ++i) result = get(&table, id);
    return result == 0 || table;
}
"""


@pytest.fixture(scope="session")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asking")
    (folder / "ask.c").write_text(ASKING)
    command = ["cc", "-shared", "-fPIC", "-o", folder / "libasking.so", folder / "ask.c"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("_student_extension.so", "nvcc -cudart shared"),
        ("libcublas.so.12", "cannot be used"),
        ("libcudart.so.12", "by its name alone"),
        ("libnvrtc.so.13", None),
        ("libnvJitLink.so.13", None),
        ("libnvvm.so.4", None),
    ],
)
def test_each_object_that_asks_gets_its_text_once(
    way: Way, asking: Path, tmp_path: Path, name: str, says: str
):
    library = shutil.copy(asking / "libasking.so", tmp_path / name)
    done = way.run(sys.executable, "-c", f"import ctypes; assert ctypes.CDLL({str(library)!r}).ask() == 0")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    if says is None:
        assert lines == []
    else:
        assert len(lines) == 1
        assert says in lines[0]
        assert str(library) in lines[0]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (("cupy_backends/cuda/api/runtime.so", "cupy/cuda/thrust.so", "cupy/cuda/cub.so"), "build-cupy.md"),
        (("libcudf/lib64/libcudf.so",), "numba, PyTorch and JAX can"),
    ],
)
def test_a_package_that_nobody_can_link_again_says_once_what_helps(
    way: Way, asking: Path, tmp_path: Path, files: tuple[str, ...], says: str
):
    libraries = [tmp_path / "site-packages" / file for file in files]
    for library in libraries:
        library.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(asking / "libasking.so", library)
    asks = f"import ctypes; assert [ctypes.CDLL(each).ask() for each in {list(map(str, libraries))!r}]"
    done = way.run(sys.executable, "-c", asks)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert says in line
    assert "nvcc" not in line


def test_a_program_with_a_static_runtime_is_told_how_to_link_it(way: Way, nvcc: str, tmp_path: Path):
    source, program = tmp_path / "static.cu", tmp_path / "static"
    source.write_text("int main() { void* p; return cudaMalloc(&p, 4) == cudaSuccess; }")
    subprocess.run([nvcc, "-cudart", "static", source, "-o", program], check=True, capture_output=True)
    done = way.run(program)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "nvcc -cudart shared" in done.stderr
