"""The native build that the software GPU's tests use.

``make`` builds everything in ``build/native``; where that exists it is brought up to date, so that nothing is
compiled twice. Elsewhere a build of its own is made in ``build/tests-softgpu``.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def build_folder() -> Path:
    chosen = os.environ.get("GPU_KERNELS_TEST_BUILD")
    if chosen:
        return Path(chosen)
    made = REPOSITORY / "build" / "native"
    return made if (made / "CMakeCache.txt").exists() else REPOSITORY / "build" / "tests-softgpu"


@functools.cache
def built(target: str) -> Path:
    """Builds ``target`` if it is not up to date and returns the build's folder."""
    folder = build_folder()
    tools = Path(sys.executable).parent
    if not (folder / "CMakeCache.txt").exists():
        configure = [
            tools / "cmake",
            *("-G", "Ninja", "-S", REPOSITORY / "remoting" / "native", "-B", folder, "--log-level=WARNING"),
            *(f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", f"-DPython3_EXECUTABLE={sys.executable}"),
        ]
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    command = [tools / "cmake", "--build", folder, "--target", target, "-j", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{target} does not build:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return folder
