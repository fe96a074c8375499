"""Where the native build is: ``remoting/lib``, or the folder that ``GPU_KERNELS_NATIVE`` names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_kernels.remoting.startup.gpu_kernels_frameworks import OWN

NATIVE_VARIABLE = "GPU_KERNELS_NATIVE"


@dataclass(frozen=True)
class NativeBuild:
    """The files of a native build under ``folder``; none is promised to exist."""

    folder: Path

    @property
    def client(self) -> Path:
        """The folder of the forwarding client's libraries."""
        return self.folder / "client"

    @property
    def softgpu(self) -> Path:
        """The folder of the software GPU's libraries."""
        return self.folder / "softgpu"

    @property
    def softgpu_driver(self) -> Path:
        return self.softgpu / "libcuda.so.1"

    @property
    def software_maths(self) -> tuple[Path, ...]:
        """What the software GPU computes calls of maths libraries with."""
        return self.softgpu / "libgpu_kernels_maths.so", self.softgpu / "libscipy_openblas64_.so"

    @property
    def compiler_stand_ins(self) -> tuple[Path, ...]:
        """The stand-ins for nvJitLink and NVRTC that give PTX for machine code, by SONAME."""
        names = ("libnvJitLink.so.13", "libnvJitLink.so.12", "libnvrtc.so.13", "libnvrtc.so.12")
        return tuple(self.softgpu / name for name in names)

    @property
    def client_runtimes(self) -> tuple[Path, ...]:
        """The CUDA runtimes over the forwarding client, one for each SONAME in use."""
        return _runtimes(self.client)

    @property
    def softgpu_runtimes(self) -> tuple[Path, ...]:
        """The same over the software GPU's own driver."""
        return _runtimes(self.softgpu)

    @property
    def ptxas(self) -> Path:
        """The stand-in for ptxas that hands PTX through."""
        return self.cuda_root / "bin" / "ptxas"

    @property
    def cuda_root(self) -> Path:
        """What stands for the folder of a CUDA toolkit on a software GPU: it has ``bin/ptxas`` alone."""
        return self.softgpu / "cuda"

    @property
    def nvcc(self) -> Path:
        """What goes before nvcc on a software GPU, and has it write PTX for machine code."""
        return self.softgpu / "commands" / "nvcc"

    @property
    def libraries(self) -> Path:
        """The folder of what stands for NVIDIA's maths libraries."""
        return self.folder / "libraries"

    @property
    def maths_libraries(self) -> tuple[Path, ...]:
        return tuple(self.libraries / name for name in OWN)

    @property
    def worker(self) -> Path:
        return self.folder / "bin" / "gpu-worker"

    def all_files(self) -> tuple[Path, ...]:
        """Everything that a whole build has."""
        return (
            self.client / "libcuda.so.1",
            self.client / "libnvidia-ml.so.1",
            *self.client_runtimes,
            self.softgpu_driver,
            self.softgpu / "libnvidia-ml.so.1",
            *self.softgpu_runtimes,
            *self.software_maths,
            *self.compiler_stand_ins,
            self.ptxas,
            self.nvcc,
            *self.maths_libraries,
            self.worker,
        )


def _runtimes(folder: Path) -> tuple[Path, ...]:
    return folder / "libcudart.so.13", folder / "libcudart.so.12"


def native_build(environment: Mapping[str, str] | None = None) -> NativeBuild:
    """The native build that a process with this environment (default: this one's) uses."""
    values = os.environ if environment is None else environment
    named = values.get(NATIVE_VARIABLE)
    return NativeBuild(Path(named).absolute() if named else Path(__file__).resolve().parent / "lib")
