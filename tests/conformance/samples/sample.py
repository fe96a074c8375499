"""A sample, as its CMakeLists.txt describes it, and how it is built with nvcc alone.

Their own build asks for all that any sample may want (OpenGL, Vulkan, MPI) and compiles for nine
architectures; here a sample is compiled to PTX for one, and to a program that takes the runtime as a shared
library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GROUPS = (
    "0_Introduction",
    "1_Utilities",
    "2_Concepts_and_Techniques",
    "3_CUDA_Features",
    "5_Domain_Specific",
    "6_Performance",
)
NEEDS_MORE = re.compile(
    r"OpenGL|GLUT|Vulkan|EGL|FreeImage|find_package\(MPI|nvsci|NvSci|D3D|cublas|cufft|WIN32\)$", re.M
)
"""What a machine without a screen, or a compiler alone, does not have."""
TO_PTX = ("-gencode", "arch=compute_75,code=compute_75")
BUILD_SECONDS = 600


class BuildFailed(Exception):
    """What nvcc said at last."""


@dataclass(frozen=True)
class Sample:
    """``folder``: that of its sources; ``described``: its CMakeLists.txt."""

    folder: Path
    described: str

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def sources(self) -> list[Path]:
        """What its program is compiled of."""
        found = re.search(r"add_executable\(\s*(\S+)\s+([^)]*)\)", self.described)
        return [self.folder / name for name in found[2].split()] if found else []

    @property
    def images(self) -> Iterator[tuple[str, str]]:
        """Files of code that it loads: their names, and nvcc's option that makes them. Of the one source."""
        for name in re.findall(r"([A-Za-z0-9_]+\.(?:fatbin|ptx))\"\)", self.described):
            yield name, "-fatbin" if name.endswith("fatbin") else "-ptx"

    @property
    def image_source(self) -> Path:
        found = re.search(
            r'set\(CUDA_KERNEL_SOURCE\s+"\$\{CMAKE_CURRENT_SOURCE_DIR\}/(\S+)"\)', self.described
        )
        return self.folder / (found[1] if found else "")

    @property
    def libraries(self) -> list[str]:
        """Of CUDA, beside the runtime."""
        return sorted(set(re.findall(r"CUDA::(nvrtc|cuda_driver|curand)", self.described)))

    def built(self, into: Path, common: Path, links: dict[str, list[str]]) -> Path:
        """Its program, which is made where it is not there yet. Raises ``BuildFailed``.

        ``links``: nvcc's options for each library of CUDA.
        """
        place = into / self.name
        program = place / self.name
        if program.exists():
            return program
        place.mkdir(parents=True, exist_ok=True)
        for file in self.folder.iterdir():  # data, and sources that are compiled when it runs
            if not (place / file.name).exists():
                (place / file.name).symlink_to(file)
        options = ["-std=c++17", "-O2", "-cudart", "shared", "-I", str(common), "--extended-lambda", "-w"]
        options += ["-Xcompiler", "-fopenmp"] if "OpenMP" in self.described else []
        options += (
            ["-rdc=true", "-lcudadevrt"] if self.name.startswith("cdp") or "device_link" in self.name else []
        )
        for library in self.libraries:
            options += links[library]
        for name, kind in self.images:
            nvcc([*TO_PTX, "-I", common, kind, "-o", place / name, self.image_source], place)
        nvcc([*options, *TO_PTX, "-o", f"{program}.made", *self.sources], place)
        os.replace(f"{program}.made", program)
        return program


def nvcc(arguments: list[str | Path], cwd: Path) -> None:
    command = ["nvcc", *map(str, arguments)]
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise BuildFailed(f"nvcc took more than {BUILD_SECONDS} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()[
            -1:
        ]
        raise BuildFailed(lines[0] if lines else f"nvcc ended with {done.returncode}")


def samples(root: Path) -> Iterator[Sample]:
    """Those that a compiler alone can build."""
    for group in GROUPS:
        for described in sorted((root / "Samples" / group).glob("*/CMakeLists.txt")):
            text = described.read_text()
            sample = Sample(described.parent, text)
            if sample.sources and not NEEDS_MORE.search(text):
                yield sample


def compiler_is_here() -> bool:
    return shutil.which("nvcc") is not None
