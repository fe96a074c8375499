"""The guides about CUDA programs, typed in as they stand: CUDA C++, Triton, and looking for races."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_kernels.spawner.ports import free_port
from tests.docs.documents import ROOT, blocks, code
from tests.docs.test_guides import once_it_listens, running, typed, wait_until_it_says

HOW_TO = ROOT / "docs" / "how-to"
CUDA_CPP = HOW_TO / "run-cuda-cpp.md"
RACES = HOW_TO / "find-races.md"
TRITON = HOW_TO / "run-triton.md"

pytestmark = [
    pytest.mark.native,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not (ROOT / "remoting/lib/bin/gpu-worker").exists(), reason="no native build"),
]
needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None, reason="nvcc is not here to compile the guide's program"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "vector_add.cu").write_text("\n".join(code(CUDA_CPP, "cpp")))
    return tmp_path


@needs_nvcc
def test_a_cuda_program_runs_straight_and_on_a_slice(folder):
    compile_it, straight, leased = blocks(CUDA_CPP)
    typed(compile_it, folder)
    assert typed(straight, folder) == "out[999] = 2997\n"
    port = str(free_port())
    tokens, controller, agent, use = (
        block.strip().replace("8250", port) for block in blocks(HOW_TO / "set-up-a-pool-without-a-hub.md")
    )
    typed(tokens, folder)
    export = use.splitlines()[0]
    with running(controller, folder), running(once_it_listens(port, agent), folder):
        wait_until_it_says("V100 (software GPU)", f"{export}\njupyter gpu status", folder)
        assert typed(f"{export}\n{leased}", folder) == "out[999] = 2997\n"


@needs_nvcc
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("", "vector_add was linked with NVIDIA's static CUDA runtime"),
        ("-cudart shared -gencode arch=compute_90,code=sm_90", "refused a fatbin: it has no PTX"),
        (
            "-cudart shared -gencode arch=compute_90a,code=compute_90a",
            "refused a fatbin: its only PTX is for sm_90a",
        ),
    ],
    ids=["static runtime", "machine code only", "one architecture only"],
)
def test_a_wrong_option_is_told_as_the_table_says(folder, options, told):
    typed(f"nvcc {options} vector_add.cu -o vector_add", folder)
    assert told in typed(f"{blocks(CUDA_CPP)[1].strip()} || true", folder)


@needs_nvcc
def test_a_program_for_a_newer_capability_runs(folder):
    typed("nvcc -cudart shared -arch=sm_90 vector_add.cu -o vector_add", folder)
    assert typed(blocks(CUDA_CPP)[1], folder) == "out[999] = 2997\n"


@needs_nvcc
def test_an_index_out_of_bounds_is_told_with_its_line(folder):
    source = folder / "vector_add.cu"
    source.write_text(source.read_text().replace("if (i < n) out", "out"))
    compile_it, straight, _ = blocks(CUDA_CPP)
    typed(compile_it, folder)
    said = typed(f"{straight.strip()} || true", folder)
    assert "kernel add, block (3,0,0), thread (232,0,0): read of 4 bytes out of bounds" in said
    line = 1 + source.read_text().splitlines().index("    out[i] = a[i] + b[i];")
    assert f"vector_add.cu:{line}\n" in said


def test_a_missing_barrier_is_found_as_the_guide_says(folder):
    shown, wrong = code(RACES, "text"), code(RACES, "python")
    (folder / "solution.py").write_text("\n".join(wrong))
    command = blocks(RACES)[0]
    said = typed(command, folder)
    last = re.sub(r"\s+", " ", shown[0]).split("gpu-kernels: ")[-1].strip()
    # How often warps meet on a race depends on the order in which they run.
    assert re.search(f"gpu-kernels: {re.sub('[0-9]+', '[0-9]+', re.escape(last))}", said)
    found = "race: kernel total, block (0,0,0), thread (0,0,0) reads shared _cudapy_smem_1 at byte 256"
    assert found in shown[0]
    assert found in said
    mended = "\n".join(wrong).replace("# no barrier here", "\n        cuda.syncthreads()")
    (folder / "solution.py").write_text(mended)
    assert "race" not in typed(command, folder)


@pytest.mark.timeout(300)
def test_a_triton_kernel_runs_straight(folder):
    python = os.environ.get("GPU_KERNELS_TORCH_PYTHON", sys.executable)
    asked = "import torch, triton; assert torch.version.cuda"
    if subprocess.run([python, "-c", asked], capture_output=True).returncode != 0:
        pytest.skip("Triton is not here (GPU_KERNELS_TORCH_PYTHON names a Python that has it, and PyTorch)")
    (folder / "triton_add.py").write_text("\n".join(code(TRITON, "python")))
    straight = blocks(TRITON)[0].splitlines()[0].replace("-- python", f"-- env -u PYTHONPATH {python}")
    said = typed(f"export TRITON_CACHE_DIR=$PWD/cache\n{straight}", folder)
    assert "equal: True" in said
