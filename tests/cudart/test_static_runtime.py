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
        (
            "site-packages/other/_extension.so",
            "cannot be used on this GPU. numba, cuda.core, PyTorch, TensorFlow, JAX and Triton can use",
        ),
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
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
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
        (("cuda/compute/cu13/cccl/libcccl.c.parallel.so",), "cuda.compute's wheel"),
        (("warp/bin/warp.so",), "Use its device 'cpu'"),
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


LOOKING = """
#include <dlfcn.h>
int ask(void) {
    int (*get)(const char *, void **, int, unsigned long long, int *) =
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
    void *found = 0;
    int status = 0;
    for (int i = 0; i < 3; ++i) get("cuDeviceGetCount", &found, 12000, 0, &status);
    return found != 0;
}
"""


def test_warp_is_told_of_when_it_looks_for_the_drivers_functions(way: Way, asking: Path, tmp_path: Path):
    """It lists devices long before it asks for NVIDIA's tables. Then nothing is said again."""
    found = tmp_path / "site-packages" / "warp" / "bin" / "warp.so"
    for library in (found, tmp_path / "site-packages" / "numba" / "other.so"):
        library.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "look.c").write_text(
            LOOKING.replace("ask", "look") + ASKING.partition("#include <dlfcn.h>")[2]
        )
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "look.c"], check=True)
        program = f"import ctypes; one = ctypes.CDLL({str(library)!r}); assert one.look() == 1"
        done = way.run(sys.executable, "-c", program)
        assert (done.returncode, "Use its device 'cpu'" in done.stderr) == (0, library == found)
        assert done.stderr.count("\n") == (library == found)
    done = way.run(
        sys.executable, "-c", f"import ctypes; one = ctypes.CDLL({str(found)!r}); one.look(); one.ask()"
    )
    assert done.stderr.count("\n") == 1


def test_a_program_with_a_static_runtime_is_told_how_to_link_it(way: Way, nvcc: str, tmp_path: Path):
    source, program = tmp_path / "static.cu", tmp_path / "static"
    source.write_text("int main() { void* p; return cudaMalloc(&p, 4) == cudaSuccess; }")
    subprocess.run([nvcc, "-cudart", "static", source, "-o", program], check=True, capture_output=True)
    done = way.run(program)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "nvcc -cudart shared" in done.stderr
